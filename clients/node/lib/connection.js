import {existsSync} from "node:fs";
import {fileURLToPath} from "node:url";
import * as grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

// In the package, or where it is worked on.
const folders = ["../protos", "../../../protos"].map((path) => fileURLToPath(new URL(path, import.meta.url)));

let service;
function generationService() {
  if (service) return service;
  const folder = folders.find((path) => existsSync(`${path}/sluice/v1/generation.proto`));
  const definition = protoLoader.loadSync("sluice/v1/generation.proto", {
    includeDirs: [folder],
    longs: String,  // seeds have 64 bits
    enums: String,
    defaults: true,
    arrays: true,
    oneofs: true,
  });
  service = grpc.loadPackageDefinition(definition).sluice.v1.GenerationService;
  return service;
}

// A score of a long text is longer than the 4 MB that gRPC takes unless told otherwise. A lost server is looked for
// again soon: gRPC's own pauses grow to two minutes.
const options = {
  "grpc.max_receive_message_length": -1,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1000,
};

/** A stub for each endpoint; leave() goes on to the one after. */
export class Stubs {
  constructor(endpoints, tls, token) {
    const addresses = typeof endpoints === "string" ? endpoints.split(",") : endpoints;
    if (!addresses.length || addresses.includes("")) throw new TypeError("an endpoint is empty");
    const credentials = tls
      ? grpc.credentials.createSsl(tls.authority ?? null, tls.key ?? null, tls.certificate ?? null)
      : grpc.credentials.createInsecure();
    const Service = generationService();
    this.stubs = addresses.map((address) => new Service(address, credentials, options));
    this.metadata = new grpc.Metadata();
    if (token) this.metadata.set("authorization", `Bearer ${token}`);
    this.at = 0;
  }

  get current() {
    return this.stubs[this.at];
  }

  /** Goes on to the next endpoint, unless another call has done so. */
  leave(stub) {
    if (stub === this.current) this.at = (this.at + 1) % this.stubs.length;
  }

  close() {
    this.stubs.forEach((stub) => stub.close());
  }
}
