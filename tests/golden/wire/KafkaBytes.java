// Reads lines "NAME<tab>VERSION<tab>JSON" and prints "NAME<tab>VERSION<tab>BYTES IN BASE64<tab>JSON" made by Kafka's own classes.
// An empty JSON column stands for a message whose fields are all at their defaults.
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import org.apache.kafka.common.protocol.ApiKeys;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.errors.RetriableException;

public class KafkaBytes {
    static final String[] PACKAGES = {
        "org.apache.kafka.common.message.", "org.apache.kafka.common.metadata.", "org.apache.kafka.raft.generated.",
        "org.apache.kafka.coordinator.group.generated.", "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated."};

    static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    Class<?> found = Class.forName(prefix + name + suffix);
                    if (Message.class.isAssignableFrom(found)) return found;
                } catch (ClassNotFoundException e) {
                    continue;
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    static void facts() {
        for (Errors error : Errors.values())
            System.out.println("error\t" + error.code() + "\t" + error.name() + "\t" + (error.exception() instanceof RetriableException));
        for (ApiKeys api : ApiKeys.values())
            if (api.latestVersion(true) >= 0 && !api.messageType.listeners().isEmpty())
                for (short version = api.oldestVersion(); version <= api.latestVersion(true); version++)
                    System.out.println("api\t" + api.id + "\t" + api.name + "\t" + version + "\t"
                        + api.requestHeaderVersion(version) + "\t" + api.responseHeaderVersion(version) + "\t"
                        + (version <= api.latestVersion(false)));
    }

    public static void main(String[] arguments) throws Exception {
        if (arguments.length > 0 && arguments[0].equals("facts")) {
            facts();
            return;
        }
        ObjectMapper mapper = new ObjectMapper();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        java.io.PrintStream out = new java.io.PrintStream(System.out, false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] columns = line.split("\t", -1);
            short version = Short.parseShort(columns[1]);
            Class<?> cls = find(columns[0]);
            Class<?> converter = Class.forName(cls.getName() + "JsonConverter");
            Object message;
            if (columns[2].isEmpty()) {
                message = cls.getDeclaredConstructor().newInstance();
            } else {
                Method read = converter.getMethod("read", JsonNode.class, short.class);
                message = read.invoke(null, mapper.readTree(columns[2]), version);
            }
            java.nio.ByteBuffer buffer = MessageUtil.toByteBufferAccessor((Message) message, version).buffer();
            byte[] bytes = new byte[buffer.remaining()];
            buffer.get(bytes);
            Method write = converter.getMethod("write", cls, short.class);
            String json = mapper.writeValueAsString(write.invoke(null, message, version));
            out.println(columns[0] + "\t" + version + "\t" + Base64.getEncoder().encodeToString(bytes) + "\t" + json);
        }
        out.flush();
    }
}
