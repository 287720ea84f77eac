// Who may read a page that only this host's browsers reach.

package report

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// LocalOnly returns a handler that answers only requests for an address of this host, as a browser makes
// them. Under another name, a page of a stranger could make the browser read the answers (DNS rebinding):
// to the browser, both would be of one site.
func LocalOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isLocal(r.Host) {
			http.Error(w, "this page is at the address that rdma_server has printed", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// isLocal reports whether a request is for an address of this host, and not for another name.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "localhost" || err == nil && ip.IsLoopback()
}
