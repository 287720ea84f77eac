// The errors of a connection.

package rc

import (
	"fmt"
	"net"
	"net/netip"
	"syscall"

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
	case verbs.EventQPReqErr, verbs.EventQPAccessErr:
		text += "; the queue pair is in ERR, because its device refused a request of the peer: the peer's completion says why"
	default:
		text += "; the queue pair is in ERR: its first completion that is not a flush says why"
	}
	return text
}

// PeerAddressError reports a GID that is not the peer's, as far as Config.PeerNetworks can tell.
type PeerAddressError struct {
	GID verbs.GID  // named by the peer
	TCP netip.Addr // address of the peer's end of the TCP connection
}

// Error names both addresses and says why they must match.
func (e *PeerAddressError) Error() string {
	return fmt.Sprintf("the peer names the GID %v, but its TCP connection comes from %v, and no other host may get packets because of it; "+
		"try: a device at the peer with the address %v, or the GID's network in this end's Config.PeerNetworks", e.GID, e.TCP, e.TCP)
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
	return "the " + e.object + " is closed; try: close it only after its last use"
}

func (closedError) Is(target error) bool { return target == net.ErrClosed }

// portDownError matches ENETDOWN.
type portDownError struct{ error }

func (portDownError) Is(target error) bool { return target == syscall.ENETDOWN }

func errPortDown(device string, port uint8, state verbs.PortState) error {
	return portDownError{errors.Errorf("port %d of %s is %v; try: set its network interface up (ip link set dev IFACE up; rdma link shows which)", port, device, state)}
}

func errNoGID(index int) error {
	return errors.Errorf("the peer sent no GID for its queue pair %d, and RoCE needs one; try: a GID index at the peer (-g 1 in most programs)", index)
}

func errBadMTU(mtu int) error {
	return errors.Errorf("the peer's path MTU of %d bytes is not one of RDMA's; try: the same version of this program at the peer", mtu)
}
