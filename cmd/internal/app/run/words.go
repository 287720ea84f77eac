// Additions to errors that only the commands can make: names of programs and flags.

package run

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/pkg/errors"

	"github.com/rawverbs/rawverbs/oob"
	"github.com/rawverbs/rawverbs/rc"
)

// inOurWords adds to a library's error what to do with rdma_server and rdma_client.
func inOurWords(peer string, err error) error {
	var address *oob.AddressError
	var breach *oob.ProtocolError
	switch {
	case errors.As(err, &address) && errors.Is(err, syscall.ECONNREFUSED):
		server := "rdma_server"
		if peer != native {
			server = "a server of --peer " + peer
		}
		return fmt.Errorf("%w; is %s running there?", err, server)
	case errors.As(err, &breach) && errors.Is(breach, oob.ErrForeignPeer) && strings.Contains(breach.Try, "exchange format"):
		return fmt.Errorf("%w (--peer of rdma_server and rdma_client)", err)
	case errors.As(err, new(*rc.PeerAddressError)):
		return fmt.Errorf("%w (--peer-networks)", err)
	}
	return err
}
