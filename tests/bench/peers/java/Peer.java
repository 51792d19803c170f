// The peer for Kafka's own Java Admin client, behind JSON lines (tests/bench/process.py speaks the other end).
//
// Best use: one client, kept; the plural calls, which batch by coordinator (KIP-699, KIP-709) where the brokers can.
// Defaults but for the timeouts, which are raised so that a large call is measured and not given up. There is no public
// way to ask for coordinators. JSON is written by hand: Kafka's client jars bring no JSON library of their own.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutionException;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AdminClientConfig;
import org.apache.kafka.clients.admin.ConsumerGroupDescription;
import org.apache.kafka.clients.admin.ListConsumerGroupOffsetsSpec;
import org.apache.kafka.clients.admin.ListGroupsOptions;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.KafkaFuture;
import org.apache.kafka.common.TopicPartition;

public final class Peer {
    private static final String TIMEOUT_MS = "300000";

    private long groups;
    private long offsets;
    private long checksum;
    private long errors;
    private String error = "";

    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put(AdminClientConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(AdminClientConfig.REQUEST_TIMEOUT_MS_CONFIG, TIMEOUT_MS);
        settings.put(AdminClientConfig.DEFAULT_API_TIMEOUT_MS_CONFIG, TIMEOUT_MS);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("{\"ready\": true}");
        Admin admin = null;
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String operation = field(line, "op");
            List<String> ids = List.of(Files.readString(Path.of(field(line, "groups"))).trim().split("\n"));
            Peer result = new Peer();
            long begin = System.nanoTime();
            if (admin == null) {
                admin = Admin.create(settings);
            }
            Runnable reading = result.call(admin, operation, ids);
            long called = System.nanoTime();
            reading.run();
            System.out.println(result.render((called - begin) / 1e9, (System.nanoTime() - called) / 1e9));
        }
        if (admin != null) {
            admin.close();
        }
    }

    /** Calls, waits for everything, and returns what reads the result: only the call itself is what a peer is timed for. */
    private Runnable call(Admin admin, String operation, List<String> ids) throws InterruptedException {
        return switch (operation) {
            case "list_offsets" -> listOffsets(admin, ids);
            case "describe" -> describe(admin, ids);
            case "delete" -> delete(admin, ids);
            case "list_groups" -> listGroups(admin);
            default -> throw new IllegalArgumentException(operation);
        };
    }

    private Runnable listOffsets(Admin admin, List<String> ids) throws InterruptedException {
        Map<String, ListConsumerGroupOffsetsSpec> specs = new HashMap<>();
        ids.forEach(id -> specs.put(id, new ListConsumerGroupOffsetsSpec()));
        Map<String, Map<TopicPartition, OffsetAndMetadata>> fetched =
            await(admin.listConsumerGroupOffsets(specs).all(), Map.of());
        return () -> {
            for (Map<TopicPartition, OffsetAndMetadata> ofGroup : fetched.values()) {
                groups++;
                for (OffsetAndMetadata offset : ofGroup.values()) {
                    offsets++;
                    checksum += offset.offset();
                }
            }
        };
    }

    private Runnable describe(Admin admin, List<String> ids) throws InterruptedException {
        Map<String, ConsumerGroupDescription> described = await(admin.describeConsumerGroups(ids).all(), Map.of());
        return () -> groups = described.values().stream().filter(d -> d.groupState() == GroupState.EMPTY).count();
    }

    private Runnable delete(Admin admin, List<String> ids) throws InterruptedException {
        Map<String, KafkaFuture<Void>> deleted = admin.deleteConsumerGroups(ids).deletedGroups();
        for (KafkaFuture<Void> one : deleted.values()) {
            long before = errors;
            await(one, null);
            groups += errors == before ? 1 : 0;
        }
        return () -> { };
    }

    private Runnable listGroups(Admin admin) throws InterruptedException {
        groups = await(admin.listGroups(ListGroupsOptions.forConsumerGroups()).all(), List.of()).size();
        return () -> { };
    }

    private <T> T await(KafkaFuture<T> future, T otherwise) throws InterruptedException {
        try {
            return future.get();
        } catch (ExecutionException failure) {
            errors++;
            error = error.isEmpty() ? failure.getCause().toString() : error;
            return otherwise;
        }
    }

    private String render(double seconds, double readSeconds) {
        return String.format(java.util.Locale.ROOT,
            "{\"seconds\": %f, \"read_seconds\": %f, \"groups\": %d, \"offsets\": %d, \"checksum\": %d, \"errors\": %d, "
                + "\"error\": \"%s\"}",
            seconds, readSeconds, groups, offsets, checksum, errors, error.replaceAll("[\"\\\\\\p{Cntrl}]", "'"));
    }

    /** Reads a text of the command; the paths and names there contain nothing that JSON would escape. */
    private static String field(String line, String name) {
        Matcher found = Pattern.compile("\"" + name + "\": \"([^\"]*)\"").matcher(line);
        if (!found.find()) {
            throw new IllegalArgumentException(line);
        }
        return found.group(1);
    }
}
