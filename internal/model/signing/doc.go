// Package signing adds the credentials of clouds to calls of models: AWS signatures
// (version 4) for Amazon Bedrock, and Google's access tokens for Vertex.
//
// Both are [http.RoundTripper]s. They add headers to a copy of the request and know
// nothing about models. The signatures come from the clouds' own small libraries; no SDK
// is linked.
//
// A transport is safe for concurrent use. Google's keeps its token until it expires.
package signing
