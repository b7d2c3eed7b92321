package remote

// Look asks all nodes for their names, once.
var Look = (*Nodes).look
