// The way in of the explorer; its parts are in explorer/.
import "./explorer/main.js";
