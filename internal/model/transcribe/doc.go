// Package transcribe turns recordings into text, with an endpoint in the shape of OpenAI's
// audio/transcriptions (OpenAI, Groq, LocalAI, speaches, whisper.cpp's server behind a proxy).
//
// The package makes one call and keeps nothing. It follows no redirects, which would send the key
// to another host.
package transcribe
