// The prelude of a snippet that takes nothing for granted.
