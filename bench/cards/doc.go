// Package cards makes agent cards that look like those of people, for measurements: what
// an agent does is composed of the words of about forty domains, and domains, things,
// makers, languages and countries are as unevenly frequent as in life. The same seed
// gives the same cards. It also makes queries for which the right answer is known.
package cards
