// Asynchronous events: what happens to a device, a port or a queue pair without
// a work request's completion.

package verbs

import "fmt"

// EventType is the kind of an asynchronous event (enum ibv_event_type).
type EventType uint32

// The asynchronous events, each with what it is about: a CQ, a queue pair (QP), an
// SRQ, a port or the device.
const (
	EventCQErr            EventType = iota // CQ: it overran and is lost, and queue pairs that need it fail
	EventQPFatal                           // QP: it is in ERR, because it could not report a completion or something failed in the device
	EventQPReqErr                          // QP: the peer's request breaks the rules; the queue pair is in ERR
	EventQPAccessErr                       // QP: the peer's request lacks the right to the memory; the queue pair is in ERR
	EventCommEst                           // QP: a message came in RTR, before the move to RTS: the peer is there
	EventSQDrained                         // QP: in SQD, and the sends that had begun are done; asked for by EN_SQD_ASYNC_NOTIFY
	EventPathMig                           // QP: it has moved to its second path
	EventPathMigErr                        // QP: it could not move to its second path
	EventDeviceFatal                       // the device: it failed, was reset or is being removed; close what it has
	EventPortActive                        // port: it has become active
	EventPortErr                           // port: it is no longer active; the link is down
	EventLIDChange                         // port: its LID has changed (InfiniBand)
	EventPKeyChange                        // port: its partition key table has changed
	EventSMChange                          // port: the subnet manager is another (InfiniBand)
	EventSRQErr                            // SRQ: it failed, and cannot be used any more
	EventSRQLimitReached                   // SRQ: fewer receives are left than the limit, which is disarmed now; see SRQ.Modify
	EventQPLastWQEReached                  // QP: it has an SRQ, went to ERR, and takes no more receives from it
	EventClientReregister                  // port: the subnet manager asks for what was subscribed to, again (InfiniBand)
	EventGIDChange                         // port: its GID table has changed, as when an address comes or goes
	EventWQFatal                           // a receive queue of raw packets, which this package does not make
)

// String is the C name: "IBV_EVENT_QP_FATAL".
func (t EventType) String() string {
	return cName("IBV_EVENT_", "ibv_event_type", uint32(t),
		"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
		"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
		"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL")
}

// AsyncEvent is one event (struct ibv_async_event). Which of QPN, CQ, SRQ and Port
// counts follows from the type; the others are zero. CQ and SRQ may be nil for an
// object that was closed since. An event is a plain value, which holds no object open.
type AsyncEvent struct {
	Type EventType   // what happened, and so what it is about
	QPN  uint32      // events of a queue pair
	CQ   ProviderCQ  // events of a completion queue: what [CQ.Is] compares
	SRQ  ProviderSRQ // events of a shared receive queue: what [SRQ.Is] compares
	Port uint8       // events of a port
}

// Fatal says that what the event is about cannot be used any more: a queue pair until
// it has been through RESET, anything else until it is closed and made anew.
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
