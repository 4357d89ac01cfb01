import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.controller.PartitionChangeBuilder;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.Replicas;
import org.apache.kafka.server.common.MetadataVersion;

/** What Kafka's controller makes of partitions, one a line: as it is, what it should become, and who may lead. Answers with each partition as it is afterwards, or "none". */
public class KafkaPartitionChanges {
    private static final String SAME = "same";

    public static void main(String[] arguments) throws Exception {
        BufferedReader cases = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder answers = new StringBuilder();
        for (String line = cases.readLine(); line != null; line = cases.readLine()) {
            answers.append(answer(line.split(" "))).append('\n');
        }
        System.out.print(answers);
    }

    private static String answer(String[] fields) {
        PartitionRegistration before = before(fields);
        Set<Integer> able = new HashSet<>(numbers(fields[8]));
        PartitionChangeBuilder wish = new PartitionChangeBuilder(
            before, new Uuid(1, 1), 0, able::contains, MetadataVersion.latestProduction(),
            Integer.parseInt(fields[9]), fields[10].equals("elr"));
        wish.setElection(PartitionChangeBuilder.Election.valueOf(fields[11])).setTargetIsr(numbers(fields[12]));
        wish.setUncleanShutdownReplicas(numbers(fields[13]));
        if (!fields[14].equals(SAME)) {
            wish.setTargetReplicas(numbers(fields[14]));
            wish.setTargetAdding(numbers(fields[15])).setTargetRemoving(numbers(fields[16]));
        }
        if (!fields[17].equals(SAME)) {
            wish.setTargetLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields[17])));
        }
        return wish.setDefaultDirProvider(KafkaPartitionChanges::directory).build()
            .map(change -> shown(before.merge((PartitionChangeRecord) change.message())))
            .orElse("none");
    }

    private static PartitionRegistration before(String[] fields) {
        int[] replicas = array(fields[0]);
        return new PartitionRegistration.Builder()
            .setReplicas(replicas)
            .setDirectories(Arrays.stream(replicas).mapToObj(KafkaPartitionChanges::directory).toArray(Uuid[]::new))
            .setIsr(array(fields[1])).setAddingReplicas(array(fields[2])).setRemovingReplicas(array(fields[3]))
            .setElr(array(fields[4])).setLastKnownElr(array(fields[5]))
            .setLeader(Integer.parseInt(fields[6]))
            .setLeaderRecoveryState(LeaderRecoveryState.of(Byte.parseByte(fields[7])))
            .setLeaderEpoch(5).setPartitionEpoch(9).build();
    }

    private static String shown(PartitionRegistration after) {
        int[] eligible = after.elr.clone();
        Arrays.sort(eligible);
        List<String> parts = new ArrayList<>();
        for (int[] each : List.of(after.replicas, after.isr, after.addingReplicas, after.removingReplicas, eligible, after.lastKnownElr)) {
            parts.add(each.length == 0 ? "-" : Arrays.stream(each).mapToObj(String::valueOf).collect(Collectors.joining(",")));
        }
        parts.addAll(List.of("" + after.leader, "" + after.leaderRecoveryState.value(), "" + after.leaderEpoch, "" + after.partitionEpoch));
        return String.join(" ", parts);
    }

    private static Uuid directory(int brokerId) {
        return new Uuid(1_000, brokerId + 1);
    }

    private static int[] array(String numbers) {
        return Replicas.toArray(numbers(numbers));
    }

    private static List<Integer> numbers(String numbers) {
        return numbers.equals("-") ? List.of() : Arrays.stream(numbers.split(",")).map(Integer::valueOf).collect(Collectors.toList());
    }
}
