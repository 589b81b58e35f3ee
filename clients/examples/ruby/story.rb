#!/usr/bin/env ruby
# Streams a story; goes on with the same text where the server is lost in between. Usage: story.rb [HOST:PORT]
#
# Debian 12: apt-get install ruby-grpc ruby-grpc-tools protobuf-compiler protobuf-compiler-grpc
require "tmpdir"

# Code from the protos, made anew at each start; programs of more than a page keep it.
PROTOS = ENV.fetch("SLUICE_PROTOS", File.expand_path("../../../protos", __dir__))
GENERATED = Dir.mktmpdir
at_exit { FileUtils.remove_entry(GENERATED) }
files = Dir.glob("sluice/v1/*.proto", base: PROTOS)
system("protoc", "-I", PROTOS, "--ruby_out=#{GENERATED}", "--grpc_out=#{GENERATED}",
       "--plugin=protoc-gen-grpc=/usr/bin/grpc_ruby_plugin", *files, exception: true)
$LOAD_PATH.unshift(GENERATED)
require "sluice/v1/generation_services_pb"

stub = Sluice::V1::GenerationService::Stub.new(ARGV.fetch(0, "127.0.0.1:8700"), :this_channel_is_insecure)
request = Sluice::V1::GenerateRequest.new(text: "Once upon a time", max_tokens: 60,
                                          sampling: Sluice::V1::SamplingOptions.new(temperature: 0.7, seed: 1))
ids = []
begin
  stub.generate(request, deadline: Time.now + 60).each do |event|
    next unless event.chunk

    ids.concat(event.chunk.token_ids.to_a)
    print event.chunk.text
    $stdout.flush
  end
rescue GRPC::Unavailable
  sleep 0.2
  request.resume.replace([Sluice::V1::ResumedSequence.new(token_ids: ids)])
  retry
end
puts
