import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.StringReader;
import java.util.*;

/**
 * Writes what java.util.Properties makes of texts: hand-made ones and random ones of a fixed seed, as JSON rows [text, pairs or null].
 *
 * Usage: java -cp 'KAFKA_LIBS/*' tools/JavaProperties.java > tests/golden/config/java-properties.json
 */
public class JavaProperties {
    public static void main(String[] args) throws Exception {
        List<String> texts = new ArrayList<>(List.of("", "a", "a=", "=b", " = b ", "a=b", "a:b", "a b", "a  =  b", "a = b = c", "a\\=b=c", "a\\:b:c",
            "a\\ b c", "#x=1\ny=2", "!x=1\n  # z\ny=2", "a=b\\\n   c", "a=b\\\\\nc=d", "a=b\\", "a\\\n b=c", "a=\\u0041\\t\\n\\q", "a=\\u00e9", "a=\\u12",
            "a=\\uzzzz", "a=1\ra=2\r\nb=3", "\f a\f=\fb\f", "k\\\n\n v", "a=b\\\n#c", "a=b\n\\\nc=d", "a=\\uD83D\\uDE00", "a==b", "a:=b", "a = : b", "\\u0061=1",
            "a=b\\\r\n  c\\\r d", "# c\\\na=b", "a\t\tb", "key with\\ blank=1", "x=\u00e4\u20ac"));
        Random random = new Random(7);
        String alphabet = "abA=: \t\f\n\r\\#!u041\u00e9";
        for (int i = 0; i < 400; i++) {
            StringBuilder text = new StringBuilder();
            for (int length = random.nextInt(24); length > 0; length--) text.append(alphabet.charAt(random.nextInt(alphabet.length())));
            texts.add(text.toString());
        }
        ObjectMapper mapper = new ObjectMapper();
        StringJoiner rows = new StringJoiner(",\n", "[\n", "\n]");
        for (String text : texts) {
            Object pairs = null;
            try {
                Properties properties = new Properties();
                properties.load(new StringReader(text));
                pairs = new TreeMap<>(properties);
            } catch (IllegalArgumentException malformed) {
                pairs = null;
            }
            rows.add(mapper.writeValueAsString(Arrays.asList(text, pairs)));
        }
        System.out.println(rows);
    }
}
