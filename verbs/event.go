// Asynchronous events: what happens to a device, a port or a queue pair without
// a work request's completion.

package verbs

import "fmt"

// EventType is the kind of an asynchronous event (enum ibv_event_type).
type EventType uint32

// The asynchronous events.
const (
	EventCQErr EventType = iota
	EventQPFatal
	EventQPReqErr
	EventQPAccessErr
	EventCommEst
	EventSQDrained
	EventPathMig
	EventPathMigErr
	EventDeviceFatal
	EventPortActive
	EventPortErr
	EventLIDChange
	EventPKeyChange
	EventSMChange
	EventSRQErr
	EventSRQLimitReached
	EventQPLastWQEReached
	EventClientReregister
	EventGIDChange
	EventWQFatal
)

// String is the C name: "IBV_EVENT_QP_FATAL".
func (t EventType) String() string {
	return cName("IBV_EVENT_", "ibv_event_type", uint32(t),
		"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
		"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
		"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL")
}

// AsyncEvent is one event (struct ibv_async_event). Which of QPN, CQ, SRQ and Port
// counts follows from the type; the event holds no object alive.
type AsyncEvent struct {
	Type EventType
	QPN  uint32      // events of a queue pair
	CQ   CQProvider  // events of a completion queue: what [CQ.Is] compares
	SRQ  SRQProvider // events of a shared receive queue: what [SRQ.Is] compares
	Port uint8       // events of a port
}

// Fatal says that what the event is about cannot be used any more.
func (e AsyncEvent) Fatal() bool {
	switch e.Type {
	case EventCQErr, EventQPFatal, EventQPReqErr, EventQPAccessErr, EventDeviceFatal, EventSRQErr, EventWQFatal:
		return true
	}
	return false
}

// String names the event and what it is about: "IBV_EVENT_PORT_ERR on port 1".
func (e AsyncEvent) String() string {
	switch {
	case e.QPN != 0:
		return fmt.Sprintf("%v on QP %#06x", e.Type, e.QPN)
	case e.CQ != nil:
		return fmt.Sprintf("%v on a CQ", e.Type)
	case e.SRQ != nil:
		return fmt.Sprintf("%v on an SRQ", e.Type)
	case e.Port != 0:
		return fmt.Sprintf("%v on port %d", e.Type, e.Port)
	}
	return e.Type.String()
}
