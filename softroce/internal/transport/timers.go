// Timers: a heap of alarms, at most one per queue pair.
//
// Every acknowledgement moves a queue pair's deadline, but not its alarm. When an alarm goes
// off before the deadline, it is set again for the deadline.

package transport

import (
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// never is a deadline that is never reached.
const never = time.Duration(math.MaxInt64)

// timerHeap is a binary heap of alarms. Each queue pair knows the index of its alarm.
type timerHeap struct {
	first atomic.Int64 // time of the earliest alarm

	mu     sync.Mutex
	alarms []alarm
}

type alarm struct {
	at time.Duration
	qp *QP
}

func (t *timerHeap) reset() { t.first.Store(int64(never)) }

// set sets or moves qp's alarm.
func (t *timerHeap) set(qp *QP, at time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := qp.alarmIndex
	if i < 0 {
		i = len(t.alarms)
		t.alarms = append(t.alarms, alarm{})
	}
	t.put(i, alarm{at, qp})
	t.up(i)
	t.down(qp.alarmIndex)
	t.first.Store(int64(t.alarms[0].at))
}

// due removes the earliest alarm if its time has come, and returns its queue pair.
func (t *timerHeap) due(now time.Duration) *QP {
	if time.Duration(t.first.Load()) > now {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.alarms) == 0 || t.alarms[0].at > now {
		return nil
	}
	qp := t.alarms[0].qp
	t.removeAt(0)
	return qp
}

// remove removes qp's alarm, if it has one.
func (t *timerHeap) remove(qp *QP) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if qp.alarmIndex >= 0 {
		t.removeAt(qp.alarmIndex)
	}
}

func (t *timerHeap) removeAt(i int) {
	t.alarms[i].qp.alarmIndex = -1
	last := len(t.alarms) - 1
	moved := t.alarms[last]
	t.alarms[last] = alarm{}
	t.alarms = t.alarms[:last]
	if i < last {
		t.put(i, moved)
		t.up(i)
		t.down(moved.qp.alarmIndex)
	}
	first := never // store first only once, so that no reader misses the other alarms
	if last > 0 {
		first = t.alarms[0].at
	}
	t.first.Store(int64(first))
}

func (t *timerHeap) put(i int, a alarm) {
	t.alarms[i] = a
	a.qp.alarmIndex = i
}

func (t *timerHeap) up(i int) {
	a := t.alarms[i]
	for i > 0 && a.at < t.alarms[(i-1)/2].at {
		t.put(i, t.alarms[(i-1)/2])
		i = (i - 1) / 2
	}
	t.put(i, a)
}

func (t *timerHeap) down(i int) {
	a := t.alarms[i]
	for {
		child := 2*i + 1
		if child >= len(t.alarms) {
			break
		}
		if child+1 < len(t.alarms) && t.alarms[child+1].at < t.alarms[child].at {
			child++
		}
		if t.alarms[child].at >= a.at {
			break
		}
		t.put(i, t.alarms[child])
		i = child
	}
	t.put(i, a)
}
