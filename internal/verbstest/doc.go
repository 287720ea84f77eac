// Package verbstest is the conformance table: what a device must do, as cases
// that run on every device (the software device, rdma_rxe in the machine,
// hardware), client and server as two objects in one process.
//
// A case that a device cannot serve is listed with the reason in the device's
// quirks; a listed case that passes fails the run.
package verbstest
