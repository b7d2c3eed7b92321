// Package webui is the page: static files and ES modules that talk to the
// JSON API of the same host and to no other. There is no build step; the files
// are embedded as they stand.
//
// Handler serves them with a content security policy that allows nothing but
// our own files, so that a sentence of a model never becomes a script. Text of
// people, models, tools and events enters the document as text; the only markup
// that does is the answer of POST /render.
//
// app.js decides which view is shown by the address behind the # (router.js);
// each view is a module: conversation.js, search.js, requests.js, timeline.js,
// events.js, deadletters.js, workflows.js, rules.js, health.js, settings.js. What is shown of a
// conversation is computed in state.js, reducer.js and outbox.js, which touch neither the
// network nor the document; transcript.js draws the part of it that is near what
// a person looks at, pending.js what was not read yet. sending.js brings what a
// person says to the server; unsent.js and drafts.js keep over a reload what has
// not arrived and what was not sent. hub.js is the one event stream of all tabs of a browser: a
// stream for each tab would use up the six connections that a browser opens to a
// host.
//
// Only the composition root imports this package; it knows no other.
package webui
