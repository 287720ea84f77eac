package rnet_test

import (
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/rawverbs/rawverbs/rnet"
	_ "github.com/rawverbs/rawverbs/softroce" // soft0, for machines without an RDMA device
)

// An echo over a Conn. The code is the same as with package net.
func Example() {
	ln, err := rnet.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer ln.Close()
	go func() {
		conn, err := ln.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.Copy(conn, conn); err != nil {
			log.Fatal(err)
		}
	}()

	conn, err := rnet.Dial("rdma", ln.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "over RDMA")
	if err := conn.(*rnet.Conn).CloseWrite(); err != nil {
		log.Fatal(err)
	}
	echo, err := io.ReadAll(conn)
	fmt.Printf("%s, %v\n", echo, err)
	// Output: over RDMA, <nil>
}

// A web server and its client. net/http needs a net.Listener and a function that dials.
func Example_http() {
	ln, err := rnet.Listen("rdma", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s", r.URL.Path)
	})}
	go func() { _ = server.Serve(ln) }()
	defer server.Close()

	client := &http.Client{Transport: &http.Transport{DialContext: new(rnet.Dialer).DialContext}}
	defer client.CloseIdleConnections()
	response, err := client.Get("http://" + ln.Addr().String() + "/weather")
	if err != nil {
		log.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	fmt.Printf("%s, %v\n", body, err)
	// Output: you asked for /weather, <nil>
}
