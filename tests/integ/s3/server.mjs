// s3rver with one bucket, in a directory, on this port or one of the system's, which it says.  Ends with its standard input.
import S3rver from "s3rver";

const [directory, bucket, at = "0"] = process.argv.slice(2);
const server = new S3rver({ address: "127.0.0.1", port: Number(at), silent: true, directory, configureBuckets: [{ name: bucket, configs: [] }] });
const { port } = await server.run();

console.log(port);
process.stdin.on("end", () => process.exit(0)).resume();
