// Package sluice is a client of Sluice, a server of language models.
//
//	client, err := sluice.Dial("127.0.0.1:8700")
//	...
//	stream := client.Generate(ctx, &pb.GenerateRequest{Prompt: sluice.Text("Once upon a time")})
//	for chunk := range stream.Chunks() {
//		fmt.Print(chunk.Text)
//	}
//	if err := stream.Err(); err != nil { ... }
//
// A stream goes on by itself where its connection or its server is lost, with the same text. Deadlines and cancellation
// are the context's. Requests are the generated messages of package sluice/v1, whose comments explain every field.
package sluice

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	pb "sluice/v1"
)

// Client calls a server, or several that serve the same model. Safe for concurrent use.
type Client struct {
	retry       RetryPolicy
	token       string
	tls         *tls.Config
	connections []*grpc.ClientConn
	stubs       []service

	mu sync.Mutex
	at int // the endpoint that calls go to
}

// service has the calls of both services of the API.
type service interface {
	pb.GenerationServiceClient
	pb.EmbedServiceClient
}

type stub struct {
	pb.GenerationServiceClient
	pb.EmbedServiceClient
}

// Option changes how a client is made.
type Option func(*Client)

// WithTLS encrypts; the configuration has authorities and, where servers ask for one, a certificate.
func WithTLS(config *tls.Config) Option { return func(c *Client) { c.tls = config } }

// WithToken says who calls.
func WithToken(token string) Option { return func(c *Client) { c.token = token } }

// WithRetry replaces DefaultRetryPolicy; the zero policy never tries again.
func WithRetry(policy RetryPolicy) Option { return func(c *Client) { c.retry = policy } }

// Dial makes a client of "HOST:PORT", or of several by comma: the next is taken where one is lost. It does not wait for
// a connection.
func Dial(endpoints string, options ...Option) (*Client, error) {
	c := &Client{retry: DefaultRetryPolicy}
	for _, option := range options {
		option(c)
	}
	for _, endpoint := range strings.Split(endpoints, ",") {
		if endpoint == "" {
			c.Close()
			return nil, errors.New("sluice: an endpoint is empty")
		}
		connection, err := grpc.Dial(endpoint, c.dialOptions()...)
		if err != nil {
			c.Close()
			return nil, err
		}
		c.connections = append(c.connections, connection)
		c.stubs = append(c.stubs, stub{pb.NewGenerationServiceClient(connection), pb.NewEmbedServiceClient(connection)})
	}
	return c, nil
}

func (c *Client) dialOptions() []grpc.DialOption {
	security := grpc.WithInsecure()
	if c.tls != nil {
		security = grpc.WithTransportCredentials(credentials.NewTLS(c.tls))
	}
	// A lost server is looked for again soon: gRPC's own pauses grow to two minutes. A score of a long text is longer than
	// the 4 MB that gRPC takes unless told otherwise.
	pauses := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	return []grpc.DialOption{security,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pauses, MinConnectTimeout: time.Second}),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{}), grpc.MaxCallRecvMsgSize(math.MaxInt32))}
}

// Close ends the calls under way.
func (c *Client) Close() error {
	var first error
	for _, connection := range c.connections {
		if err := connection.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

func (c *Client) current() (int, service) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at, c.stubs[c.at]
}

// leave goes on to the next endpoint, unless another call has done so.
func (c *Client) leave(index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == index {
		c.at = (index + 1) % len(c.stubs)
	}
}

func (c *Client) outgoing(ctx context.Context) context.Context {
	if c.token == "" {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.token)
}

// unary makes a call until it is answered.
func (c *Client) unary(ctx context.Context, call func(context.Context, service) error) error {
	attempts := newAttempts(c.retry)
	for {
		index, stub := c.current()
		err := call(c.outgoing(ctx), stub)
		if err == nil {
			return nil
		}
		if err := attempts.wait(ctx, errorFrom(err)); err != nil {
			return err
		}
		c.leave(index)
	}
}

// Score returns the log-probability of every token of a text.
func (c *Client) Score(ctx context.Context, request *pb.ScoreRequest) (response *pb.ScoreResponse, err error) {
	err = c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.Score(ctx, request)
		return err
	})
	return response, err
}

// Embed returns the embedding of each text, or a classifier's scores.
func (c *Client) Embed(ctx context.Context, request *pb.EmbedRequest) (response *pb.EmbedResponse, err error) {
	err = c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.Embed(ctx, request)
		return err
	})
	return response, err
}

// Rerank returns how well each document answers a query.
func (c *Client) Rerank(ctx context.Context, request *pb.RerankRequest) (response *pb.RerankResponse, err error) {
	err = c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.Rerank(ctx, request)
		return err
	})
	return response, err
}

// Tokenize returns the ids of a text's tokens, with what the tokenizer puts around a text.
func (c *Client) Tokenize(ctx context.Context, text string) ([]int32, error) {
	var response *pb.TokenizeResponse
	err := c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.Tokenize(ctx, &pb.TokenizeRequest{Text: []byte(text)})
		return err
	})
	return response.GetTokenIds(), err
}

// Detokenize returns the text of tokens.
func (c *Client) Detokenize(ctx context.Context, ids []int32) (string, error) {
	var response *pb.DetokenizeResponse
	err := c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.Detokenize(ctx, &pb.DetokenizeRequest{TokenIds: ids})
		return err
	})
	return response.GetText(), err
}

// Model says what is served: name, size, context.
func (c *Client) Model(ctx context.Context) (response *pb.GetModelResponse, err error) {
	err = c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.GetModel(ctx, &pb.GetModelRequest{})
		return err
	})
	return response, err
}

// Status says what the server is doing, and what it lacks where it does not serve.
func (c *Client) Status(ctx context.Context) (response *pb.GetStatusResponse, err error) {
	err = c.unary(ctx, func(ctx context.Context, stub service) (err error) {
		response, err = stub.GetStatus(ctx, &pb.GetStatusRequest{})
		return err
	})
	return response, err
}
