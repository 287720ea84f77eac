// Asynchronous events of a device, a port or an object. They are not completions of work requests.

package verbs

import "fmt"

// EventType is the kind of an asynchronous event (enum ibv_event_type).
type EventType uint32

// The asynchronous events. Each comment begins with the object of the event: a CQ, a queue pair
// (QP), an SRQ, a port or the device.
const (
	EventCQErr            EventType = iota // CQ: it overran; close it; its queue pairs fail
	EventQPFatal                           // QP: it could not report a completion, or something failed in the device; it is in ERR
	EventQPReqErr                          // QP: the peer's request was invalid; the queue pair is in ERR
	EventQPAccessErr                       // QP: the peer's request had no right to the memory; the queue pair is in ERR
	EventCommEst                           // QP: a message arrived in RTR, before the move to RTS
	EventSQDrained                         // QP: it is in SQD and all sends that had begun are done; requested by EN_SQD_ASYNC_NOTIFY
	EventPathMig                           // QP: it has moved to its second path
	EventPathMigErr                        // QP: it could not move to its second path
	EventDeviceFatal                       // device: it failed, was reset or is being removed; close all its objects
	EventPortActive                        // port: it has become active
	EventPortErr                           // port: it is no longer active; the link is down
	EventLIDChange                         // port: its LID has changed (InfiniBand)
	EventPKeyChange                        // port: its partition key table has changed
	EventSMChange                          // port: it has a new subnet manager (InfiniBand)
	EventSRQErr                            // SRQ: it failed; close it
	EventSRQLimitReached                   // SRQ: fewer receives are left than the limit; the limit is now disarmed; see SRQ.Modify
	EventQPLastWQEReached                  // QP: it uses an SRQ, is in ERR, and takes no more receives from the SRQ
	EventClientReregister                  // port: the subnet manager wants all subscriptions again (InfiniBand)
	EventGIDChange                         // port: its GID table has changed, for example because an address was added
	EventWQFatal                           // a receive queue for raw packets, which this package does not support
)

// String returns the C name: "IBV_EVENT_QP_FATAL".
func (t EventType) String() string {
	return cName("IBV_EVENT_", "ibv_event_type", uint32(t),
		"CQ_ERR", "QP_FATAL", "QP_REQ_ERR", "QP_ACCESS_ERR", "COMM_EST", "SQ_DRAINED", "PATH_MIG", "PATH_MIG_ERR",
		"DEVICE_FATAL", "PORT_ACTIVE", "PORT_ERR", "LID_CHANGE", "PKEY_CHANGE", "SM_CHANGE", "SRQ_ERR",
		"SRQ_LIMIT_REACHED", "QP_LAST_WQE_REACHED", "CLIENT_REREGISTER", "GID_CHANGE", "WQ_FATAL")
}

// AsyncEvent is an asynchronous event (struct ibv_async_event). Its type says what the event is
// about: a queue pair, a port, the device, a CQ or an SRQ. [CQ.Is] and [SRQ.Is] report whether it is
// about that queue. AsyncEvent is a plain value and does not keep an object open.
type AsyncEvent struct {
	Type EventType // what happened, and to which kind of object
	QPN  uint32    // for events of a queue pair; otherwise 0
	Port uint8     // for events of a port; otherwise 0

	object any // for events of a CQ or an SRQ: the provider's; nil if the object has been closed since
}

// Fatal reports whether the object of the event can no longer be used. A queue pair works again
// after a move to RESET. Any other object must be closed and made again.
func (e AsyncEvent) Fatal() bool {
	switch e.Type {
	case EventCQErr, EventQPFatal, EventQPReqErr, EventQPAccessErr, EventDeviceFatal, EventSRQErr, EventWQFatal:
		return true
	}
	return false
}

// String returns the event and its object: "IBV_EVENT_PORT_ERR on port 1".
func (e AsyncEvent) String() string {
	switch e.object.(type) {
	case ProviderCQ:
		return fmt.Sprintf("%v on a CQ", e.Type)
	case ProviderSRQ:
		return fmt.Sprintf("%v on an SRQ", e.Type)
	}
	switch {
	case e.QPN != 0:
		return fmt.Sprintf("%v on QP %#06x", e.Type, e.QPN)
	case e.Port != 0:
		return fmt.Sprintf("%v on port %d", e.Type, e.Port)
	}
	return e.Type.String()
}
