// Streams a story. Usage: story [HOST:PORT]
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"google.golang.org/protobuf/proto"
	"sluice"
	pb "sluice/v1"
)

func main() {
	address := "127.0.0.1:8700"
	if len(os.Args) > 1 {
		address = os.Args[1]
	}
	client, err := sluice.Dial(address)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	stream := client.Generate(ctx, &pb.GenerateRequest{
		Prompt:    sluice.Text("Once upon a time"),
		MaxTokens: proto.Int32(60),
		Sampling:  &pb.SamplingOptions{Temperature: proto.Float32(0.7), Seed: proto.Uint64(1)},
	})
	for chunk := range stream.Chunks() {
		fmt.Print(chunk.Text)
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("\n%d tokens\n", stream.Finished().Usage.NumGeneratedTokens)
}
