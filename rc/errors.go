// The errors of a connection.

package rc

import (
	"fmt"
	"net"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/verbs"
)

// AsyncError is the fatal asynchronous event that ended a connection.
type AsyncError struct {
	Device string           // name of the device that reported the event
	Event  verbs.AsyncEvent // Event.Fatal is true
}

// Error names the event and its usual cause.
func (e *AsyncError) Error() string {
	text := fmt.Sprintf("%s reported %v", e.Device, e.Event)
	switch e.Event.Type {
	case verbs.EventDeviceFatal:
		text += "; the device is being removed or was reset: start again once it is back (rdma link)"
	case verbs.EventCQErr:
		text += "; the completion queue overran: make it as deep as the queues that complete there, and poll it"
	case verbs.EventSRQErr:
		text += "; the shared receive queue is lost: connect again, with a new one"
	default:
		text += "; the queue pair is in ERR: its first completion that is not a flush says why"
	}
	return text
}

// errAborted is sent to the peer after a panic in a step of the connecting, or in a handler.
var errAborted = errors.New("the program left this step without an error (a panic?); its output may say why")

var (
	errClosed       error = closedError{"Conn"}
	errServerClosed error = closedError{"Server"}
)

// closedError matches net.ErrClosed and names the object.
type closedError struct{ object string }

func (e closedError) Error() string {
	return "the " + e.object + " is closed; try: closing it only after its last use"
}

func (closedError) Is(target error) bool { return target == net.ErrClosed }

func errPortDown(device string, port uint8, state verbs.PortState) error {
	return errors.Errorf("port %d of %s is %v; try: setting its network interface up (ip link set dev IFACE up; rdma link shows which)", port, device, state)
}

func errNoGID(index int) error {
	return errors.Errorf("the peer sent no GID for its queue pair %d, and RoCE needs one; try: a GID index at the peer (-g 1 in most programs)", index)
}

func errBadMTU(mtu int) error {
	return errors.Errorf("the peer's path MTU of %d bytes is not one of RDMA's; try: the same version of this program at the peer", mtu)
}
