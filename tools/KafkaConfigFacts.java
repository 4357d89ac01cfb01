import java.lang.reflect.Field;
import java.util.*;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.config.types.Password;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.storage.internals.log.LogConfig;

/**
 * Prints, as JSON, the facts of every configuration key that the Apache Kafka on the class path knows:
 * name, type, default, valid values, importance, dynamic update mode and synonyms. No texts.
 *
 * Usage: java -cp 'KAFKA_LIBS/*' tools/KafkaConfigFacts.java > tests/golden/config/kafka-4.3.1-keys.json
 */
public class KafkaConfigFacts {
    static StringBuilder out = new StringBuilder();

    static String quoted(Object value) {
        if (value == null) return "null";
        StringBuilder text = new StringBuilder("\"");
        for (char c : value.toString().toCharArray()) {
            if (c == '"' || c == '\\') text.append('\\').append(c);
            else if (c < 32) text.append(String.format("\\u%04x", (int) c));
            else text.append(c);
        }
        return text.append('"').toString();
    }

    static String list(Collection<String> values) {
        StringJoiner joined = new StringJoiner(", ", "[", "]");
        for (String value : values) joined.add(quoted(value));
        return joined.toString();
    }

    /** The validator's own words, or for a list its element values and whether it may be empty or null. */
    static String valid(ConfigDef.Validator validator) throws Exception {
        if (validator == null) return "null";
        if (!(validator instanceof ConfigDef.ValidList)) return quoted(validator.toString());
        StringBuilder facts = new StringBuilder("list");
        Field[] fields = ConfigDef.ValidList.class.getDeclaredFields();
        Arrays.sort(fields, Comparator.comparing(Field::getName));
        for (Field field : fields) {
            field.setAccessible(true);
            facts.append(' ').append(field.getName()).append('=').append(field.get(validator));
        }
        return quoted(facts);
    }

    static void table(String title, ConfigDef def, Map<String, String> modes) throws Exception {
        out.append("  ").append(quoted(title)).append(": [\n");
        StringJoiner rows = new StringJoiner(",\n");
        for (String name : new TreeSet<>(def.names())) {
            ConfigDef.ConfigKey key = def.configKeys().get(name);
            Object value = key.hasDefault() ? key.defaultValue : null;
            String text = value == null ? null
                : value instanceof Password ? ((Password) value).value() : ConfigDef.convertToString(value, key.type);
            rows.add("    {\"name\": " + quoted(name) + ", \"type\": " + quoted(key.type) + ", \"required\": " + !key.hasDefault()
                + ", \"default\": " + quoted(text) + ", \"valid\": " + valid(key.validator)
                + ", \"importance\": " + quoted(key.importance) + ", \"internal\": " + key.internalConfig
                + ", \"mode\": " + quoted(modes == null ? null : modes.getOrDefault(name, "read-only")) + "}");
        }
        out.append(rows).append("\n  ],\n");
    }

    public static void main(String[] args) throws Exception {
        Class<?> config = Class.forName("kafka.server.KafkaConfig");
        ConfigDef broker = (ConfigDef) config.getMethod("configDef").invoke(null);
        out.append("{\n");
        table("broker", broker, DynamicBrokerConfig.dynamicConfigUpdateModes());
        table("topic", LogConfig.configDefCopy(), null);
        table("group", GroupConfig.CONFIG_DEF, null);
        table("client_metrics", ClientMetricsConfigs.configDef(), null);
        StringJoiner groups = new StringJoiner(",\n");
        for (String name : new TreeSet<>(GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.keySet())) {
            groups.add("    " + quoted(name) + ": " + quoted(GroupConfig.ALL_GROUP_CONFIG_SYNONYMS.get(name).orElse(null)));
        }
        out.append("  \"group_synonyms\": {\n").append(groups).append("\n  },\n");
        StringJoiner synonyms = new StringJoiner(",\n");
        for (String name : new TreeSet<>(ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.keySet())) {
            List<String> names = new ArrayList<>();
            for (var synonym : ServerTopicConfigSynonyms.ALL_TOPIC_CONFIG_SYNONYMS.get(name)) names.add(synonym.name());
            synonyms.add("    " + quoted(name) + ": " + list(names));
        }
        out.append("  \"topic_synonyms\": {\n").append(synonyms).append("\n  },\n");
        StringJoiner brokers = new StringJoiner(",\n");
        for (String name : new TreeSet<>(broker.names())) {
            List<String> names = DynamicBrokerConfig.brokerConfigSynonyms(name, true);
            if (names.size() > 1 || !names.get(0).equals(name)) brokers.add("    " + quoted(name) + ": " + list(names));
        }
        out.append("  \"broker_synonyms\": {\n").append(brokers).append("\n  },\n");
        out.append("  \"dynamic_security\": ").append(list(new TreeSet<>(DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS))).append("\n}\n");
        System.out.print(out);
    }
}
