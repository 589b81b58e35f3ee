package sluice

import (
	"context"
	"io"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	pb "sluice/v1"
)

// Text makes a prompt of a text, for GenerateRequest.Prompt.
func Text(text string) *pb.GenerateRequest_Text { return &pb.GenerateRequest_Text{Text: text} }

// TokenIDs makes a prompt of tokens as they are.
func TokenIDs(ids ...int32) *pb.GenerateRequest_TokenIds {
	return &pb.GenerateRequest_TokenIds{TokenIds: &pb.TokenIds{TokenIds: ids}}
}

// Conversation makes a prompt of turns, by the model's chat template.
func Conversation(turns ...*pb.ChatMessage) *pb.GenerateRequest_Chat {
	return &pb.GenerateRequest_Chat{Chat: &pb.Chat{Messages: turns}}
}

// Stream is what a model writes. Read it by Next, or by Chunks; not by both.
type Stream struct {
	client     *Client
	ctx        context.Context
	cancel     context.CancelFunc
	resumption *resumption
	attempts   *attempts
	call       pb.GenerationService_GenerateClient
	endpoint   int
	finished   *pb.Finished
	err        error
}

// Generate streams what follows a prompt. The request is copied. The stream ends with the context, whose end makes the
// server stop, or by Close.
func (c *Client) Generate(ctx context.Context, request *pb.GenerateRequest) *Stream {
	inner, cancel := context.WithCancel(c.outgoing(ctx))
	return &Stream{client: c, ctx: inner, cancel: cancel, resumption: newResumption(request), attempts: newAttempts(c.retry)}
}

// Next returns the next chunk, or nil at the end: then Err and Finished say how it ended.
func (s *Stream) Next() *pb.Chunk {
	for s.err == nil && s.finished == nil {
		event, err := s.receive()
		if err != nil {
			s.recover(err)
			continue
		}
		s.attempts.noteProgress()
		if s.finished = event.GetFinished(); s.finished != nil {
			break
		}
		s.resumption.note(event.GetChunk())
		return event.GetChunk()
	}
	s.cancel()
	return nil
}

func (s *Stream) receive() (*pb.GenerateResponse, error) {
	if s.call == nil {
		index, stub := s.client.current()
		call, err := stub.Generate(s.ctx, s.resumption.next())
		s.endpoint = index
		if err != nil {
			return nil, err
		}
		s.call = call
	}
	return s.call.Recv()
}

func (s *Stream) recover(err error) {
	s.call = nil
	if err == io.EOF {
		s.err = &Error{Code: codes.Internal, Message: "the stream ended before its last event"}
		return
	}
	if s.err = s.attempts.wait(s.ctx, errorFrom(err)); s.err == nil {
		s.client.leave(s.endpoint)
	}
}

// Chunks returns a channel of the chunks, closed at the end. Read it to the end, or Close the stream.
func (s *Stream) Chunks() <-chan *pb.Chunk {
	chunks := make(chan *pb.Chunk)
	go func() {
		defer close(chunks)
		for chunk := s.Next(); chunk != nil; chunk = s.Next() {
			select {
			case chunks <- chunk:
			case <-s.ctx.Done():
				s.err = errorFrom(status.FromContextError(s.ctx.Err()).Err())
				return
			}
		}
	}()
	return chunks
}

// Err is why the stream ended, an *Error; nil where it is finished. Ask after its end.
func (s *Stream) Err() error { return s.err }

// Finished says how each sequence ended and what was used; nil where the stream failed. Ask after its end.
func (s *Stream) Finished() *pb.Finished { return s.finished }

// Close ends the stream early: the server stops.
func (s *Stream) Close() { s.cancel() }

// Texts returns the whole texts of all sequences.
func (c *Client) Texts(ctx context.Context, request *pb.GenerateRequest) ([]string, error) {
	stream := c.Generate(ctx, request)
	defer stream.Close()
	texts := make([]strings.Builder, len(stream.resumption.tokens))
	for chunk := stream.Next(); chunk != nil; chunk = stream.Next() {
		texts[chunk.Sequence].WriteString(chunk.Text)
	}
	result := make([]string, len(texts))
	for i := range texts {
		result[i] = texts[i].String()
	}
	return result, stream.Err()
}

// Text returns the whole text of the first sequence.
func (c *Client) Text(ctx context.Context, request *pb.GenerateRequest) (string, error) {
	texts, err := c.Texts(ctx, request)
	return texts[0], err
}

// Chat returns what the assistant says next, after turns of {Role, Content}. Stream it with Generate and Conversation.
func (c *Client) Chat(ctx context.Context, turns ...*pb.ChatMessage) (string, error) {
	return c.Text(ctx, &pb.GenerateRequest{Prompt: Conversation(turns...)})
}
