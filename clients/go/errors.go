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
	// Reason is why the server would refuse the same request again, such as REQUEST_WORK_EXCEEDED, where it says so.
	Reason string
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
		if strings.HasSuffix(detail.GetTypeUrl(), "/google.rpc.ErrorInfo") {
			result.Reason = string(firstField(detail.GetValue()))
		}
	}
	return result
}

// retryDelay reads a google.rpc.RetryInfo (retry_delay: Duration = 1).
func retryDelay(message []byte) time.Duration {
	var delay durationpb.Duration
	if value := firstField(message); value == nil || proto.Unmarshal(value, &delay) != nil {
		return 0
	}
	return delay.AsDuration()
}

// firstField is the bytes of field 1 of any message, or nil.
func firstField(message []byte) []byte {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if number == 1 && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return nil
			}
			return value
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return nil
}
