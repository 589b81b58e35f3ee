// Runs conformance cases with clients/go; see the README of tests/conformance for what comes and goes.
package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"sluice"
	pb "sluice/v1"
)

type object map[string]interface{}

type testCase struct {
	ID          int             `json:"id"`
	Op          string          `json:"op"`
	Request     json.RawMessage `json:"request"`
	TimeoutMs   int             `json:"timeout_ms"`
	CancelAfter int             `json:"cancel_after"`
}

// What requests that are no messages of their own hold.
type arguments struct {
	Text     string  `json:"text"`
	TokenIDs []int32 `json:"tokenIds"`
}

var output sync.Mutex

func say(fields object) {
	line, err := json.Marshal(fields)
	if err != nil {
		log.Fatal(err)
	}
	output.Lock()
	defer output.Unlock()
	fmt.Println(string(line))
}

func positions(entries []*pb.PositionLogprobs) []object {
	result := []object{}
	for _, entry := range entries {
		top := []int32{}
		for _, other := range entry.Top {
			top = append(top, other.TokenId)
		}
		result = append(result, object{"logprob": entry.Logprob, "top": top})
	}
	return result
}

func generate(ctx context.Context, client *sluice.Client, test testCase) (object, error) {
	request := &pb.GenerateRequest{}
	if err := protojson.Unmarshal(test.Request, request); err != nil {
		log.Fatal(err)
	}
	n := 1
	if request.GetN() > 1 {
		n = int(request.GetN())
	}
	texts, ids, logprobs := make([]string, n), make([][]int32, n), make([][]object, n)
	for i := range ids {
		ids[i], logprobs[i] = []int32{}, []object{}
	}
	stream := client.Generate(ctx, request)
	count := 0
	for chunk := range stream.Chunks() {
		texts[chunk.Sequence] += chunk.Text
		ids[chunk.Sequence] = append(ids[chunk.Sequence], chunk.TokenIds...)
		logprobs[chunk.Sequence] = append(logprobs[chunk.Sequence], positions(chunk.Logprobs)...)
		if count++; count == 3 {
			say(object{"id": test.ID, "event": "chunk"})
		}
		if count == test.CancelAfter {
			stream.Close()
			return object{"cancelled": true}, nil
		}
	}
	if stream.Err() != nil {
		return nil, stream.Err()
	}
	reasons, stops := []string{}, []string{}
	for _, end := range stream.Finished().Sequences {
		reasons, stops = append(reasons, end.Reason.String()), append(stops, end.StopString)
	}
	return object{"texts": texts, "token_ids": ids, "logprobs": logprobs, "reasons": reasons, "stop_strings": stops,
		"prompt_tokens": stream.Finished().Usage.NumPromptTokens, "seed": fmt.Sprint(stream.Finished().Seed)}, nil
}

func answer(ctx context.Context, client *sluice.Client, test testCase) (object, error) {
	var given arguments
	if test.Op != "" && test.Op != "score" && test.Op != "embed" && test.Op != "rerank" {
		if err := json.Unmarshal(test.Request, &given); err != nil {
			log.Fatal(err)
		}
	}
	switch test.Op {
	case "":
		return generate(ctx, client, test)
	case "score":
		request := &pb.ScoreRequest{}
		if err := protojson.Unmarshal(test.Request, request); err != nil {
			log.Fatal(err)
		}
		score, err := client.Score(ctx, request)
		return object{"token_ids": score.GetTokenIds(), "logprobs": positions(score.GetLogprobs()), "mean_nll": score.GetMeanNll()}, err
	case "embed":
		request := &pb.EmbedRequest{}
		if err := protojson.Unmarshal(test.Request, request); err != nil {
			log.Fatal(err)
		}
		response, err := client.Embed(ctx, request)
		embeddings := [][]float32{}
		for _, embedding := range response.GetEmbeddings() {
			embeddings = append(embeddings, embedding.GetValues())
		}
		return object{"embeddings": embeddings}, err
	case "rerank":
		request := &pb.RerankRequest{}
		if err := protojson.Unmarshal(test.Request, request); err != nil {
			log.Fatal(err)
		}
		response, err := client.Rerank(ctx, request)
		return object{"scores": response.GetScores()}, err
	case "tokenize":
		ids, err := client.Tokenize(ctx, given.Text)
		return object{"token_ids": ids}, err
	case "detokenize":
		text, err := client.Detokenize(ctx, given.TokenIDs)
		return object{"text": text}, err
	case "model":
		model, err := client.Model(ctx)
		return object{"name": model.GetName(), "vocabulary_size": model.GetVocabularySize(), "max_positions": model.GetMaxPositions()}, err
	}
	status, err := client.Status(ctx)
	return object{"serving": status.GetServing()}, err
}

// names of codes as the specification of gRPC writes them.
func codeName(err *sluice.Error) string {
	var name strings.Builder
	for i, letter := range err.Code.String() {
		if i > 0 && letter >= 'A' && letter <= 'Z' {
			name.WriteByte('_')
		}
		name.WriteRune(letter)
	}
	return strings.ToUpper(name.String())
}

func run(client *sluice.Client, test testCase) {
	timeout := time.Minute
	if test.TimeoutMs > 0 {
		timeout = time.Duration(test.TimeoutMs) * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	result, err := answer(ctx, client, test)
	var failure *sluice.Error
	if errors.As(err, &failure) {
		say(object{"id": test.ID, "error": object{"code": codeName(failure), "message": failure.Message}})
	} else {
		say(object{"id": test.ID, "result": result})
	}
}

func dial() *sluice.Client {
	var settings struct {
		Endpoints string `json:"endpoints"`
		CA        string `json:"ca"`
		Token     string `json:"token"`
		Retry     *bool  `json:"retry"`
	}
	if err := json.Unmarshal([]byte(os.Getenv("SLUICE_CLIENT")), &settings); err != nil {
		log.Fatal(err)
	}
	options := []sluice.Option{sluice.WithToken(settings.Token)}
	if settings.CA != "" {
		pem, err := os.ReadFile(settings.CA)
		if err != nil {
			log.Fatal(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(pem)
		options = append(options, sluice.WithTLS(&tls.Config{RootCAs: pool}))
	}
	if settings.Retry != nil && !*settings.Retry {
		options = append(options, sluice.WithRetry(sluice.RetryPolicy{}))
	}
	client, err := sluice.Dial(settings.Endpoints, options...)
	if err != nil {
		log.Fatal(err)
	}
	return client
}

func main() {
	client := dial()
	defer client.Close()
	var running sync.WaitGroup
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var test testCase
		if err := json.Unmarshal(lines.Bytes(), &test); err != nil {
			log.Fatal(err)
		}
		running.Add(1)
		go func() {
			defer running.Done()
			run(client, test)
		}()
	}
	running.Wait()
}
