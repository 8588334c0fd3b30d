package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
)

const serviceName = "parley.Link"

// The streams of the service. Messages and contents are answered once, at the end.
var (
	messagesStream = grpc.StreamDesc{StreamName: "Messages", ClientStreams: true}
	callsStream    = grpc.StreamDesc{StreamName: "Calls", ClientStreams: true, ServerStreams: true}
	contentStream  = grpc.StreamDesc{StreamName: "Content", ClientStreams: true}
)

func path(s *grpc.StreamDesc) string { return "/" + serviceName + "/" + s.StreamName }

// rawCodec passes bytes on as they are. Values are of type *[]byte, and to send also of type
// mem.BufferSlice.
type rawCodec struct{}

// Marshal implements encoding.CodecV2.
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch b := v.(type) {
	case *[]byte:
		return mem.BufferSlice{mem.SliceBuffer(*b)}, nil
	case mem.BufferSlice:
		return b, nil
	}
	return nil, ErrFrame
}

// Unmarshal implements encoding.CodecV2. The bytes are copied: gRPC uses its memory again.
func (rawCodec) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return ErrFrame
	}
	*b = data.Materialize()
	return nil
}

// Name implements encoding.CodecV2.
func (rawCodec) Name() string { return "parley" }

const (
	// answersMax bounds the calls of one stream that are being answered.
	answersMax = 4096
	// workersIdle is how many goroutines of a stream wait for a further call.
	workersIdle = 256
)

// describe returns the service for gRPC. At most answersBytes of answers wait for a caller to take
// them.
func (l *Links) describe(answersBytes int) *grpc.ServiceDesc {
	serveCalls := func(from uint64, stream grpc.ServerStream) error { return l.serveCalls(from, stream, answersBytes) }
	with := func(s grpc.StreamDesc, membersOnly bool, serve func(uint64, grpc.ServerStream) error) grpc.StreamDesc {
		s.Handler = func(_ any, stream grpc.ServerStream) error {
			from, err := l.caller(stream.Context())
			if err == nil && membersOnly && !l.Member(from) {
				err = errNoMember
			}
			if err != nil {
				return err
			}
			return serve(from, stream)
		}
		return s
	}
	return &grpc.ServiceDesc{
		ServiceName: serviceName, HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{with(messagesStream, true, l.serveMessages), with(callsStream, false, serveCalls), with(contentStream, true, l.serveContent)},
	}
}

// serveMessages receives the messages of a peer.
func (l *Links) serveMessages(from uint64, stream grpc.ServerStream) error {
	counted := l.trafficFrom(from)
	var refused atomic.Pointer[error]
	refuse := func(err error) { refused.CompareAndSwap(nil, &err) }
	for {
		frames, err := counted.receive(stream)
		if err == nil {
			err = checkSums(frames)
		}
		if err != nil {
			return l.dropped(from, err)
		}
		if why := refused.Load(); why != nil {
			return l.dropped(from, *why)
		}
		if !l.Member(from) { // any more
			return errNoMember
		}
		bodies := make([][]byte, len(frames))
		for i, f := range frames {
			bodies[i] = f.body
		}
		if err := l.Handler.Receive(from, bodies, refuse); err != nil {
			return l.dropped(from, err)
		}
	}
}

// dropped names a peer whose stream ends because of what it sent, and returns the status of the
// stream. Other errors are those of connections.
func (l *Links) dropped(from uint64, err error) error {
	if _, ended := status.FromError(err); !errors.Is(err, ErrFrame) && (ended || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled)) {
		return err
	}
	if l.trafficFrom(from).mayBeNamed() {
		l.Logger.Error("a node of the cluster is disconnected: it sent something malformed", "node", fmt.Sprintf("%016x", from), "error", err)
	}
	return status.Error(codes.InvalidArgument, err.Error())
}

// receive receives a batch and counts it.
func (t *traffic) receive(stream interface{ RecvMsg(any) error }) ([]frame, error) {
	var batch []byte
	if err := stream.RecvMsg(&batch); err != nil {
		return nil, err
	}
	frames, err := readFrames(batch)
	t.noteReceived(len(frames), len(batch))
	return frames, err
}

// serveCalls answers the calls of a peer. Answers that are ready at the same time leave
// together.
func (l *Links) serveCalls(from uint64, stream grpc.ServerStream, answersBytes int) error {
	ctx, stop := context.WithCancel(stream.Context())
	defer stop()
	answers, counted := newOutbox(answersBytes), l.trafficFrom(from)
	l.work.Go(func() {
		defer func() { l.answering.Add(-int64(answers.close())) }()
		for {
			select {
			case <-answers.ready:
			case <-ctx.Done():
				return
			}
			runtime.Gosched() // others may have an answer that leaves with it
			frames := answers.take(nil)
			if len(frames) == 0 {
				continue
			}
			batch := encodeFrames(frames)
			size := batch.Len()
			err := stream.SendMsg(batch)
			l.answering.Add(-int64(len(frames)))
			if err != nil {
				stop()
				return
			}
			counted.noteSent(len(frames), size)
		}
	})
	refused := make(chan error, 1)
	pool := workers{work: &l.work, idle: make(chan frame), capacity: make(chan struct{}, answersMax), answer: func(f frame) {
		answer, err := l.Handler.Answer(ctx, from, f.body)
		if errors.Is(err, ErrFrame) {
			select {
			case refused <- err:
			default:
			}
		}
		reply := frame{id: f.id, failed: err != nil, body: answer}
		if err != nil {
			reply.body = []byte(err.Error())
		}
		if !answers.put(reply) {
			l.answering.Add(-1)
			stop() // a peer that does not take its answers
		}
	}}
	ended := make(chan error, 1)
	l.work.Go(func() { ended <- l.receiveCalls(ctx, from, counted, stream, &pool) })
	select {
	case err := <-ended:
		return l.dropped(from, err)
	case err := <-refused:
		return l.dropped(from, err) // the end of the stream ends the receiving
	}
}

// receiveCalls has the calls of a stream answered until it ends.
func (l *Links) receiveCalls(ctx context.Context, from uint64, counted *traffic, stream grpc.ServerStream, pool *workers) error {
	for {
		frames, err := counted.receive(stream)
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil { // nobody would send the answers
			return err
		}
		member := l.Member(from)
		for _, f := range frames {
			l.answering.Add(1)
			if !member { // one at a time
				pool.answer(f)
				continue
			}
			if err := pool.dispatch(ctx, f); err != nil {
				l.answering.Add(-1)
				return err
			}
		}
	}
}

// workers are the goroutines that answer the calls of a stream. They stay for further calls:
// an answer needs a deep stack, and a new goroutine would have to grow one.
type workers struct {
	work   *sync.WaitGroup
	answer func(frame)
	// idle passes a call to a goroutine that waits for one; waiting is the number of these
	// goroutines. capacity has an element for each call that is being answered.
	idle     chan frame
	waiting  atomic.Int32
	capacity chan struct{}
}

// dispatch has a call answered, as soon as there is free capacity.
func (a *workers) dispatch(ctx context.Context, f frame) error {
	if err := ctx.Err(); err != nil { // nobody would send the answer
		return err
	}
	select {
	case a.capacity <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	select {
	case a.idle <- f:
	default:
		a.work.Go(func() { a.serve(ctx, f) })
	}
	return nil
}

// serve answers a call, and others until ctx is done or enough goroutines wait for one.
func (a *workers) serve(ctx context.Context, f frame) {
	for {
		a.answer(f)
		<-a.capacity
		if a.waiting.Add(1) > workersIdle {
			a.waiting.Add(-1)
			return
		}
		select {
		case f = <-a.idle:
			a.waiting.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}

// serveContent receives a content of a peer: the first message is its header.
func (l *Links) serveContent(from uint64, stream grpc.ServerStream) error {
	var header []byte
	if err := stream.RecvMsg(&header); err != nil {
		return err
	}
	content := &streamReader{stream: stream, traffic: l.trafficFrom(from)}
	if err := l.Handler.Take(stream.Context(), from, header, content); err != nil {
		return status.Error(codes.Aborted, err.Error())
	}
	return stream.SendMsg(new([]byte))
}

// streamReader reads the messages of a stream as one.
type streamReader struct {
	stream grpc.ServerStream
	rest   bytes.Reader
	*traffic
}

// Read implements io.Reader.
func (r *streamReader) Read(b []byte) (int, error) {
	for r.rest.Len() == 0 {
		var next []byte
		if err := r.stream.RecvMsg(&next); err != nil {
			return 0, err // io.EOF at the end
		}
		r.noteReceived(0, len(next))
		r.rest.Reset(next)
	}
	return r.rest.Read(b)
}

// chunkBytes is the size of the messages in which a content is sent.
const chunkBytes = 256 << 10

// streamWriter sends what is written in messages of a moderate size.
type streamWriter struct {
	stream grpc.ClientStream
	*traffic
}

// Write implements io.Writer.
func (w streamWriter) Write(b []byte) (n int, err error) {
	for n < len(b) {
		chunk := bytes.Clone(b[n:min(n+chunkBytes, len(b))]) // gRPC keeps it
		if err := w.stream.SendMsg(&chunk); err != nil {
			return n, err
		}
		w.noteSent(0, len(chunk))
		n += len(chunk)
	}
	return n, nil
}

var _ io.Writer = streamWriter{}

// Raw has a call pass bytes on as they are, as the services of this package do.
func Raw() grpc.CallOption { return grpc.ForceCodecV2(rawCodec{}) }
