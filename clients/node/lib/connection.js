import {existsSync} from "node:fs";
import {fileURLToPath} from "node:url";
import * as grpc from "@grpc/grpc-js";
import protoLoader from "@grpc/proto-loader";

// In the package, or where it is worked on.
const folders = ["../protos", "../../../protos"].map((path) => fileURLToPath(new URL(path, import.meta.url)));

let services;
function publicServices() {
  if (services) return services;
  const folder = folders.find((path) => existsSync(`${path}/sluice/v1/embed.proto`));
  // It imports generation.proto.
  const definition = protoLoader.loadSync("sluice/v1/embed.proto", {
    includeDirs: [folder],
    longs: String,  // seeds have 64 bits
    enums: String,
    defaults: true,
    arrays: true,
    oneofs: true,
  });
  services = grpc.loadPackageDefinition(definition).sluice.v1;
  return services;
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
    const {GenerationService, EmbedService} = publicServices();
    this.stubs = addresses.map((address) => {
      const stub = new GenerationService(address, credentials, options);
      const embeds = new EmbedService(address, credentials, {...options, channelOverride: stub.getChannel()});
      stub.embed = embeds.embed.bind(embeds);
      stub.rerank = embeds.rerank.bind(embeds);
      return stub;
    });
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
