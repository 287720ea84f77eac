// Package report draws a run as one HTML page: from the record of both ends, and from captures of
// the packets. [New] makes the Report of a record, Add adds a capture, and WriteTo writes the page,
// which needs no other file and no network. [Live] serves the same page for a server's clients
// while their jobs run.
//
// The page (web/src/report) has the lines of the record unchanged and draws them. This package does
// what the page cannot: captures.go reads captures and keeps the packets of the run's queue pairs,
// place.go finds out at which end a capture was made and by which clock, join.go makes one packet of
// two that both ends have captured, and requests.go finds the work request of each packet.
// live_packets.go does the same for the first packets of a server's clients.
package report
