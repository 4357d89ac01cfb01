import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.File;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Asks the Apache Kafka on the class path what it says to configurations: reads JSON cases, writes them back with Kafka's outcome.
 *
 * A case of "node" is {"title", "properties"}; its outcome is the refusal of KafkaConfig, or null.
 * A case of "topic" is {"title", "existing", "configs"}; its outcome is the refusal of LogConfig.validate, or null.
 *
 * Usage: java -cp 'KAFKA_LIBS/*' tools/KafkaConfigOutcomes.java CASES.json > OUTCOMES.json
 */
public class KafkaConfigOutcomes {
    static Map<String, String> strings(JsonNode node) {
        Map<String, String> values = new LinkedHashMap<>();
        if (node != null) node.fields().forEachRemaining(e -> values.put(e.getKey(), e.getValue().asText()));
        return values;
    }

    static String refusal(Throwable thrown) {
        Throwable cause = thrown instanceof InvocationTargetException ? thrown.getCause() : thrown;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    public static void main(String[] args) throws Exception {
        ObjectMapper mapper = new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);
        JsonNode cases = mapper.readTree(new File(args[0]));
        Method fromProps = Class.forName("kafka.server.KafkaConfig").getMethod("fromProps", Properties.class);
        for (JsonNode one : cases.get("node")) {
            Properties properties = new Properties();
            properties.putAll(strings(one.get("properties")));
            String outcome = null;
            try {
                fromProps.invoke(null, properties);
            } catch (Throwable thrown) {
                outcome = refusal(thrown);
            }
            ((ObjectNode) one).put("outcome", outcome);
        }
        Properties plain = new Properties();
        plain.putAll(strings(cases.get("node").get(0).get("properties")));
        Object config = fromProps.invoke(null, plain);
        @SuppressWarnings("unchecked")
        Map<String, Object> broker = (Map<String, Object>) config.getClass().getMethod("extractLogConfigMap").invoke(config);
        for (JsonNode one : cases.get("topic")) {
            String outcome = null;
            try {
                LogConfig.validate(strings(one.get("existing")), strings(one.get("configs")), broker, false);
            } catch (Throwable thrown) {
                outcome = refusal(thrown);
            }
            ((ObjectNode) one).put("outcome", outcome);
        }
        System.out.println(mapper.writeValueAsString(cases));
    }
}
