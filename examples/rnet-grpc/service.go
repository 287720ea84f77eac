// The service. protoc would generate most of this file from the following; the messages are
// protobuf's own, so that the example needs no generated code:
//
//	service Numbers {
//	  rpc Upper(google.protobuf.StringValue) returns (google.protobuf.StringValue);
//	  rpc Count(google.protobuf.Int64Value) returns (stream google.protobuf.Int64Value);
//	  rpc Sum(stream google.protobuf.Int64Value) returns (stream google.protobuf.Int64Value);
//	}

package main

import (
	"context"
	"errors"
	"io"
	"strings"

	"google.golang.org/grpc"
	pb "google.golang.org/protobuf/types/known/wrapperspb"
)

const name = "rawverbs.examples.Numbers"

var service = grpc.ServiceDesc{
	ServiceName: name,
	Methods:     []grpc.MethodDesc{{MethodName: "Upper", Handler: upper}},
	Streams: []grpc.StreamDesc{
		{StreamName: "Count", Handler: count, ServerStreams: true},
		{StreamName: "Sum", Handler: sum, ServerStreams: true, ClientStreams: true},
	},
}

func upper(_ any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) { //nolint:revive // gRPC's order of arguments
	var text pb.StringValue
	if err := decode(&text); err != nil {
		return nil, err
	}
	return pb.String(strings.ToUpper(text.Value)), nil
}

func count(_ any, stream grpc.ServerStream) error {
	var n pb.Int64Value
	if err := stream.RecvMsg(&n); err != nil {
		return err
	}
	for i := range n.Value {
		if err := stream.SendMsg(pb.Int64(i + 1)); err != nil {
			return err
		}
	}
	return nil
}

func sum(_ any, stream grpc.ServerStream) error {
	var total int64
	for {
		var n pb.Int64Value
		if err := stream.RecvMsg(&n); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		total += n.Value
		if err := stream.SendMsg(pb.Int64(total)); err != nil {
			return err
		}
	}
}

// client calls the service.
type client struct{ cc grpc.ClientConnInterface }

func (c client) upper(ctx context.Context, text string) (string, error) {
	var answer pb.StringValue
	err := c.cc.Invoke(ctx, "/"+name+"/Upper", pb.String(text), &answer)
	return answer.Value, err
}

// count calls got for each number that the server sends.
func (c client) count(ctx context.Context, n int64, got func(int64)) error {
	stream, err := c.cc.NewStream(ctx, &service.Streams[0], "/"+name+"/Count")
	if err != nil {
		return err
	}
	if err := stream.SendMsg(pb.Int64(n)); err != nil {
		return err
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	for {
		var i pb.Int64Value
		if err := stream.RecvMsg(&i); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		got(i.Value)
	}
}

// sum sends each number and calls got with the sum that the server answers.
func (c client) sum(ctx context.Context, numbers []int64, got func(int64)) error {
	stream, err := c.cc.NewStream(ctx, &service.Streams[1], "/"+name+"/Sum")
	if err != nil {
		return err
	}
	for _, n := range numbers {
		if err := stream.SendMsg(pb.Int64(n)); err != nil {
			return err
		}
		var total pb.Int64Value
		if err := stream.RecvMsg(&total); err != nil {
			return err
		}
		got(total.Value)
	}
	if err := stream.CloseSend(); err != nil {
		return err
	}
	if err := stream.RecvMsg(new(pb.Int64Value)); !errors.Is(err, io.EOF) {
		return errors.Join(errors.New("the server did not end the stream"), err)
	}
	return nil
}
