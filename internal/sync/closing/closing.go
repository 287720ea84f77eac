// Package closing lets package rc learn that a program has closed a region, without a method that every user of
// package verbs would see.
package closing

// OnClose makes a new *verbs.MR call f after the Close that succeeds, once. Package verbs sets OnClose.
var OnClose func(region any, f func())
