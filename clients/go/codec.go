package sluice

import (
	"fmt"

	"google.golang.org/protobuf/proto"
)

// codec encodes messages of google.golang.org/protobuf also where the gRPC at hand is older and knows those of
// github.com/golang/protobuf 1.3 alone, as Debian 12's.
type codec struct{}

func (codec) Name() string { return "proto" }

func (codec) Marshal(value interface{}) ([]byte, error) {
	message, ok := value.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("sluice: %T is no protobuf message", value)
	}
	return proto.Marshal(message)
}

func (codec) Unmarshal(data []byte, value interface{}) error {
	message, ok := value.(proto.Message)
	if !ok {
		return fmt.Errorf("sluice: %T is no protobuf message", value)
	}
	return proto.Unmarshal(data, message)
}
