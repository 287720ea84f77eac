// Bandwidth: one end, or both, sends as fast as its queues allow.

package measure

import "github.com/rawverbs/rawverbs/verbs"

// send fills the send queues and takes completions until everything has completed.
func (r *Run) send() error {
	r.begin()
	for r.sending() {
		for i := range r.pairs {
			if err := r.fill(&r.pairs[i]); err != nil {
				return err
			}
		}
		if err := r.takeSends(r.poll); err != nil {
			return err
		}
	}
	r.end()
	return nil
}

// begin and end take the times of a run without a peak. With a peak, the times are those of the
// first post and the last completion.
func (r *Run) begin() {
	r.period.start()
	r.peak.from = r.now()
}

func (r *Run) end() {
	if !r.peak.wanted {
		r.peak.to = r.now()
	}
}

// total returns the number of messages on all queue pairs, or 0 with a duration.
func (r *Run) total() int64 { return int64(r.Iterations) * int64(r.QPs) }

// sending reports whether there is something left to post or to complete.
func (r *Run) sending() bool {
	if r.Duration > 0 {
		return !r.over()
	}
	return r.counted < r.total()
}

// fill posts on a queue pair until its send queue is full.
func (r *Run) fill(x *pair) error {
	list := int64(r.PostList)
	for x.sent-x.completed+list <= int64(r.TxDepth) {
		if r.Duration == 0 && x.sent == int64(r.Iterations) || r.over() {
			return nil
		}
		if list == 1 {
			r.nextSend(x)
		}
		if r.peak.wanted {
			r.peak.post(r.now())
		}
		if err := r.post(x); err != nil {
			return err
		}
		x.sent += list
	}
	return nil
}

// nextSend prepares a queue pair's only request for its next message. The request is signaled
// if it is the last of CQMod messages, or the last of all.
func (r *Run) nextSend(x *pair) {
	wr := &x.sends[0]
	r.place(x, wr, x.sent)
	if (x.sent+1)%int64(r.CQMod) == 0 || r.Duration == 0 && x.sent == int64(r.Iterations)-1 {
		wr.Flags |= verbs.SendSignaled
	} else {
		wr.Flags &^= verbs.SendSignaled
	}
}

// takeSends takes completions of sends. Each stands for the unsignaled sends before it as well.
func (r *Run) takeSends(poll func(*verbs.CQ) (int, error)) error {
	n, err := poll(r.on.SendCQ)
	for i := range r.wcs[:n] {
		x := &r.pairs[r.wcs[i].ID]
		messages := min(int64(r.CQMod), x.sent-x.completed) // the last may stand for fewer
		x.completed += messages
		r.count(messages)
		if r.peak.wanted {
			r.peak.complete(r.counted, r.now())
		}
	}
	return err
}

// receive takes the peer's messages and posts their receives again. The time begins with the
// first message.
func (r *Run) receive() error {
	for first := true; r.sending(); {
		n, err := r.takeReceives(r.poll)
		if err != nil {
			return err
		}
		if n > 0 && first {
			first = false
			r.begin()
		}
	}
	r.end()
	return nil
}

// takeReceives takes completions of receives and counts the messages. It posts the receives
// again while more messages are to come.
func (r *Run) takeReceives(poll func(*verbs.CQ) (int, error)) (int, error) {
	n, err := poll(r.on.RecvCQ)
	if err != nil || n == 0 {
		return 0, err
	}
	for i := range r.wcs[:n] {
		x := &r.pairs[r.wcs[i].ID]
		x.received++
		if r.Duration > 0 || x.posted < int64(r.Iterations) {
			if err := r.makeReceive(x); err != nil {
				return 0, err
			}
		}
		if i+1 == n || r.wcs[i+1].ID != r.wcs[i].ID {
			if err := x.flush(); err != nil {
				return 0, err
			}
		}
	}
	if !r.Both || r.Duration > 0 {
		r.count(int64(n))
	}
	return n, nil
}

// both sends and receives. The server starts to send after its first message from the client,
// which is then ready to receive. It never sleeps, because it could sleep for only one of the
// two queues.
func (r *Run) both() error {
	started, left := r.Client, r.total()
	if started {
		r.begin()
	}
	for !started || r.sending() || r.Duration == 0 && left > 0 {
		for i := range r.pairs {
			if !started {
				break
			}
			if err := r.fill(&r.pairs[i]); err != nil {
				return err
			}
		}
		n, err := r.takeReceives(r.look)
		if err != nil {
			return err
		}
		if left -= int64(n); n > 0 && !started {
			started = true
			r.begin()
		}
		if err := r.takeSends(r.look); err != nil {
			return err
		}
	}
	r.end()
	return nil
}
