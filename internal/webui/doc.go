// Package webui is the page: static files and ES modules that talk to the
// JSON API of the same host and to no other. There is no build step; the files
// are embedded as they stand.
//
// Handler serves them with a content security policy that allows nothing but
// our own files, so that a sentence of a model never becomes a script. What is
// shown of a conversation is computed in static/reducer.js, which touches
// neither the network nor the document; the other modules are its edges:
// stream.js reads events, api.js calls routes, transcript.js, sidebar.js and
// composer.js draw. Text of people, models and tools enters the document as
// text; the only markup that does is the answer of POST /render.
//
// Only the composition root imports this package; it knows no other.
package webui
