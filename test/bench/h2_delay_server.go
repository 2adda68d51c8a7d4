// An HTTP/2 server over TLS that answers every request after a delay; kube_client_bench starts it.
// Prints "PORT\n" and its certificate, and ends when its standard input does.
package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

func certificate() (tls.Certificate, []byte) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(err)
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:        true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	check(err)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key},
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func main() {
	delay, err := time.ParseDuration(os.Args[1])
	check(err)
	own, trusted := certificate()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	check(err)
	fmt.Printf("%d\n%s\n", listener.Addr().(*net.TCPAddr).Port, trusted)
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	server := http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}, NextProtos: []string{"h2"}},
		HTTP2:     &http.HTTP2Config{MaxConcurrentStreams: 100},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			io.Copy(io.Discard, r.Body)
			time.Sleep(delay)
			w.Header().Set("Content-Type", "application/json")
			io.WriteString(w, `{"metadata":{"name":"x"}}`)
		}),
	}
	check(server.ServeTLS(listener, "", ""))
}
