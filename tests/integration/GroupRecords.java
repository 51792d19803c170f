import java.lang.reflect.Method;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.coordinator.group.generated.CoordinatorRecordType;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue;
import org.apache.kafka.coordinator.group.generated.GroupMetadataValue.MemberMetadata;

/** Prints a record of each type and value version that Kafka's group coordinator knows: type, version, key, value. */
public class GroupRecords {
    public static void main(String[] arguments) throws Exception {
        HexFormat hex = HexFormat.of();
        for (CoordinatorRecordType type : CoordinatorRecordType.values()) {
            ApiMessage key = filled(type.newRecordKey());
            ApiMessage value = filled(type.newRecordValue());
            if (value instanceof GroupMetadataValue group) {
                group.setMembers(List.of(filled(new MemberMetadata())));
            }
            byte[] name = MessageUtil.toCoordinatorTypePrefixedBytes(key);
            for (short version = value.lowestSupportedVersion(); version <= value.highestSupportedVersion(); version++) {
                byte[] data = MessageUtil.toVersionPrefixedBytes(version, value);
                System.out.println(String.join(" ", "" + type.id(), "" + version, hex.formatHex(name), hex.formatHex(data)));
            }
        }
    }

    /** Sets each field of a simple type; strings to the name of their setter, and those of the group to its name. */
    private static <T extends Message> T filled(T message) throws Exception {
        for (Method method : message.getClass().getDeclaredMethods()) {
            String name = method.getName();
            if (!name.startsWith("set")) {
                continue;
            }
            Class<?> kind = method.getParameterTypes()[0];
            if (kind == String.class) {
                method.invoke(message, name.equals("setGroup") || name.equals("setGroupId") ? "grüppe" : name);
            } else if (kind == int.class) {
                method.invoke(message, 7);
            } else if (kind == long.class) {
                method.invoke(message, 1_700_000_000_123L);
            } else if (kind == byte[].class) {
                method.invoke(message, (Object) new byte[] {1, 2, 3});
            }
        }
        return message;
    }
}
