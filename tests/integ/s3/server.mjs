// s3rver with one bucket, in a directory, on this port or one of the system's, which it says.  Ends with its standard input,
// and by SIGTERM: a bucket has an object whole or not at all, and s3rver writes three files of it, so it dies between two objects,
// whether their senders have heard or not.
import fs from "node:fs/promises";
import S3rver from "s3rver";

const [directory, bucket, at = "0"] = process.argv.slice(2);
const server = new S3rver({ address: "127.0.0.1", port: Number(at), silent: true, directory, configureBuckets: [{ name: bucket, configs: [] }] });
const { store } = server, put = store.putObject.bind(store);
let puts = 0, dies = false;

store.putObject = async object => {
  puts++;
  try {
    const made = await put(object);
    while ((await fs.stat(store.getResourcePath(object.bucket, object.key, "object"))).size < made.size);
    return made;
  } finally {
    if (--puts === 0 && dies) process.exit(0);
  }
};
process.on("SIGTERM", () => { dies = true; if (puts === 0) process.exit(0); });
const { port } = await server.run();

console.log(port);
process.stdin.on("end", () => process.exit(0)).resume();
