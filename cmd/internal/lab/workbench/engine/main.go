//go:build js && wasm

// Engine is the laboratory's engine for the browser and node: cmd/internal/lab/workbench as functions of
// the global object rawverbs. web/API.md describes them.
//
//	GOOS=js GOARCH=wasm go build -ldflags='-s -w' -o engine.wasm ./cmd/internal/lab/workbench/engine
package main

import (
	"syscall/js"

	"github.com/rawverbs/rawverbs/cmd/internal/lab/workbench"
)

func main() {
	sessions := workbench.NewSessions()
	object := js.Global().Get("Object").New()
	for _, name := range workbench.CallNames() {
		object.Set(name, js.FuncOf(func(_ js.Value, args []js.Value) any {
			texts := make([]string, len(args))
			for i, a := range args {
				texts[i] = js.Global().Call("String", a).String()
			}
			return sessions.Call(name, texts...)
		}))
	}
	js.Global().Set("rawverbs", object)
	if ready := js.Global().Get("rawverbsReady"); ready.Type() == js.TypeFunction {
		ready.Invoke()
	}
	select {} // the functions stay callable
}
