#!/bin/sh
# Makes target/sluice-client.jar, with what protoc makes of the protos, from Debian's packages alone; `mvn package` does the
# same with Maven. Prints the class path that programs need.
# Usage: build.sh [FOLDER INSTEAD OF target]
set -eu
cd "$(dirname "$0")"
protos=${SLUICE_PROTOS:-../../protos}
target=${1:-target}
jars=/usr/share/java
class_path=
for name in grpc-api grpc-context grpc-core grpc-netty grpc-protobuf grpc-protobuf-lite grpc-stub protobuf guava \
  perfmark-api netty-buffer netty-codec netty-codec-http netty-codec-http2 netty-common netty-handler netty-resolver \
  netty-transport netty-transport-native-unix-common netty-codec-socks netty-handler-proxy netty-tcnative gson \
  geronimo-annotation-1.3-spec; do
  class_path=$class_path:$jars/$name.jar
done
rm -rf "$target"
mkdir -p "$target/generated" "$target/classes" "$target/native"
# Debian's Netty speaks TLS with HTTP/2 by OpenSSL alone, and looks for this library by another name than it has.
for library in /usr/lib/*/jni/libnetty-tcnative.so; do
  if [ -f "$library" ]; then cp "$library" "$target/native/libnetty_tcnative.so"; fi
done
# The public API: what imports the rest of it, and that.
files=$(protoc -I "$protos" --descriptor_set_out=/dev/null --dependency_out=/dev/stdout sluice/v1/embed.proto |
  grep -o 'sluice/v1/[a-z_]*\.proto' | sort -u)
protoc -I "$protos" "--java_out=$target/generated" "--grpc-java_out=$target/generated" \
  --plugin=protoc-gen-grpc-java=/usr/bin/grpc_java_plugin \
  $files
find src/main/java "$target/generated" -name '*.java' >"$target/sources"
javac -nowarn --release 17 -d "$target/classes" -cp "$class_path" "@$target/sources"
jar --create --file "$target/sluice-client.jar" -C "$target/classes" .
echo "$(cd "$target" && pwd)/sluice-client.jar$class_path"
