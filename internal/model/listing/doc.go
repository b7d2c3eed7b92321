// Package listing asks an endpoint which models it offers (GET …/models). This is free
// at every known host, and shows whether the endpoint accepts the key.
//
// The package makes one call and keeps nothing. It follows no redirects, which would
// send the key to another host.
package listing
