// Package simulated has two soft devices on a wire that exists only in memory. Nothing happens by
// itself: the caller moves the clock, and each packet waits on the wire until its time comes or
// the caller delivers, drops, duplicates, delays, marks or damages it. A World is deterministic: the same
// seed and the same calls give the same queue pair numbers, keys, packets and times. It is for tests of
// programs that use verbs, and for programs that show what a device does.
//
//	w, err := simulated.New(simulated.Config{})
//	client, server := w.Device(simulated.Client), w.Device(simulated.Server)
//	… objects of package verbs, made from the two devices …
//	for w.Step() {
//	}
//
// The engine is the one of package softroce, from the verbs down to the ICRC; only sockets, time
// and goroutines are replaced. So the package also works in a browser (js/wasm), where the
// laboratory uses it. A send queue fills up as with most adapters: see places.go. A World and its devices are for one goroutine. CQ.Wait would wait forever:
// step, and poll.
//
// The files: world.go has the clock and the hosts, wire.go the packets, reason.go why a packet was
// sent and what became of it, device.go the provider of package verbs, places.go the places of
// send queues, inspect.go what objects hold.
package simulated
