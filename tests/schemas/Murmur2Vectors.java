import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.HexFormat;
import org.apache.kafka.common.utils.Utils;

/** Reads keys as hex, one a line, and prints what Kafka's own client hashes them to. */
public class Murmur2Vectors {
    public static void main(String[] arguments) throws Exception {
        BufferedReader keys = new BufferedReader(new InputStreamReader(System.in));
        for (String line = keys.readLine(); line != null; line = keys.readLine()) {
            System.out.println(Utils.murmur2(HexFormat.of().parseHex(line)));
        }
    }
}
