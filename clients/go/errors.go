package sluice

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Error is what a call that failed ends with.
type Error struct {
	Code    codes.Code
	Message string // the server's words, which name field, value and what is accepted
	// RetryAfter is how long the server asks to wait before coming again, where it says so.
	RetryAfter time.Duration
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.Code, e.Message) }

// GRPCStatus lets status.Code and status.FromError see through.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

func errorFrom(err error) *Error {
	s, _ := status.FromError(err)
	result := &Error{Code: s.Code(), Message: s.Message()}
	for _, detail := range s.Proto().GetDetails() {
		if strings.HasSuffix(detail.GetTypeUrl(), "/google.rpc.RetryInfo") {
			result.RetryAfter = retryDelay(detail.GetValue())
		}
	}
	return result
}

// retryDelay reads a google.rpc.RetryInfo (retry_delay: Duration = 1).
func retryDelay(message []byte) time.Duration {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return 0
		}
		message = message[n:]
		if number == 1 && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			var delay durationpb.Duration
			if n < 0 || proto.Unmarshal(value, &delay) != nil {
				return 0
			}
			return delay.AsDuration()
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return 0
		}
		message = message[n:]
	}
	return 0
}
