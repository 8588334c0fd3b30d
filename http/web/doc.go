// Package web renders the pages for people: the start page, the directory of agents and
// groups, and refusals. It makes HTML of the same values that the endpoints answer with as
// JSON. Cards are written by strangers: their texts are escaped and cleaned of characters
// that show nothing, and only web addresses become links.
package web
