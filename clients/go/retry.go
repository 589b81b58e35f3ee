package sluice

import (
	"context"
	"math/rand"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	pb "sluice/v1"
)

// RetryPolicy says how long a call tries again after UNAVAILABLE, RESOURCE_EXHAUSTED and a CANCELLED that its context did
// not ask for, which is what a server does to calls as it shuts down; other statuses are final, and so is one with a
// reason. The pause is what the
// server says, else it doubles from FirstPause to LongestPause, with a random part so that clients do not come back
// together.
type RetryPolicy struct {
	ConnectFor   time.Duration // a call that has had no answer yet, while no server can be reached
	ResumeFor    time.Duration // a stream that has begun; a call that a busy server puts off
	FirstPause   time.Duration
	LongestPause time.Duration
}

// DefaultRetryPolicy is that of clients which set none.
var DefaultRetryPolicy = RetryPolicy{
	ConnectFor: 5 * time.Second, ResumeFor: time.Minute, FirstPause: 50 * time.Millisecond, LongestPause: 2 * time.Second}

// attempts are those of one call. No I/O: what comes next follows from what has happened.
type attempts struct {
	policy       RetryPolicy
	pause        time.Duration
	failingSince time.Time // zero: it is not
	hasBegun     bool
}

func newAttempts(policy RetryPolicy) *attempts {
	return &attempts{policy: policy, pause: policy.FirstPause}
}

func (a *attempts) noteProgress() {
	a.hasBegun = true
	a.failingSince = time.Time{}
	a.pause = a.policy.FirstPause
}

// pauseAfter is how long to wait before the next attempt, or false where there is to be none.
func (a *attempts) pauseAfter(err *Error, now time.Time) (time.Duration, bool) {
	if a.failingSince.IsZero() {
		a.failingSince = now
	}
	limit := a.policy.ConnectFor
	if a.hasBegun || err.Code == codes.ResourceExhausted {
		limit = a.policy.ResumeFor
	}
	pause := err.RetryAfter
	if pause == 0 {
		pause = time.Duration(float64(a.pause) * (0.5 + rand.Float64()/2))
		if a.pause *= 2; a.pause > a.policy.LongestPause {
			a.pause = a.policy.LongestPause
		}
	}
	again := err.Code == codes.Unavailable || err.Code == codes.ResourceExhausted || err.Code == codes.Canceled
	return pause, again && err.Reason == "" && now.Add(pause).Sub(a.failingSince) <= limit
}

// wait pauses before the next attempt. The error, where there is to be none or the deadline comes first: it says more
// than that time is up.
func (a *attempts) wait(ctx context.Context, err *Error) error {
	pause, again := a.pauseAfter(err, time.Now())
	if ctx.Err() != nil { // the caller left
		again = false
	}
	if deadline, ok := ctx.Deadline(); ok && time.Now().Add(pause).After(deadline) {
		again = false
	}
	if !again {
		return err
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return &Error{Code: codes.Canceled, Message: ctx.Err().Error()}
	case <-timer.C:
		return nil
	}
}

// resumption is the request of a stream, which grows by the tokens that came, so that another attempt goes on after them.
type resumption struct {
	request *pb.GenerateRequest
	tokens  []*pb.ResumedSequence
	begun   bool
}

// numReturned is how many sequences a request returns.
func numReturned(request *pb.GenerateRequest) int {
	beams := request.GetBeams()
	switch {
	case beams == nil:
		if request.GetN() > 1 {
			return int(request.GetN())
		}
		return 1
	case beams.NumReturn != nil:
		return int(beams.GetNumReturn())
	case beams.GetStochastic():
		return int(beams.GetBeamWidth())
	}
	return 1
}

func newResumption(request *pb.GenerateRequest) *resumption {
	copied := proto.Clone(request).(*pb.GenerateRequest)
	if copied.Sampling == nil {
		copied.Sampling = &pb.SamplingOptions{}
	}
	if copied.Sampling.Seed == nil {
		// The server's own would differ from attempt to attempt.
		copied.Sampling.Seed = proto.Uint64(seeds.next())
	}
	result := &resumption{request: copied, tokens: copied.Resume, begun: len(copied.Resume) > 0}
	for len(result.tokens) < numReturned(copied) {
		result.tokens = append(result.tokens, &pb.ResumedSequence{})
	}
	return result
}

func (r *resumption) note(chunk *pb.Chunk) {
	r.begun = true
	sequence := r.tokens[chunk.Sequence]
	sequence.TokenIds = append(sequence.TokenIds, chunk.TokenIds...)
}

func (r *resumption) next() *pb.GenerateRequest {
	if r.begun {
		r.request.Resume = r.tokens
	}
	return r.request
}
