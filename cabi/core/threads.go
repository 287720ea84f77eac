//go:build linux && cgo

package main

// #cgo LDFLAGS: -Wl,--wrap=pthread_create
import "C"

import "github.com/rawverbs/rawverbs/verbs"

// rv_enter binds the calling thread to Go.
//
//export rv_enter
func rv_enter() {}

// rv_flush sends what the devices owe their peers.
//
//export rv_flush
func rv_flush() {
	devices.Lock()
	defer devices.Unlock()
	for _, d := range devices.byName {
		verbs.ProviderOf(d.Device).(attender).Flush()
	}
}
