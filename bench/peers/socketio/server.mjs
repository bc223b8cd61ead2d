// The Socket.IO peer: rooms of sockets, every "send" numbered and emitted to its room, nothing
// stored, nobody checked. Started by parley-bench; prints where it listens.
import { createServer } from "node:http";
import { Server } from "socket.io";

const [host = "127.0.0.1", port = "0"] = process.argv.slice(2);
const http = createServer();
const io = new Server(http, { transports: ["websocket"], perMessageDeflate: false });
const seqs = new Map();

io.on("connection", (socket) => {
  socket.on("enter", (room, user, ack) => {
    socket.data.user = user;
    socket.join(room);
    ack({ ok: true });
  });
  socket.on("send", (room, text, ack) => {
    const seq = (seqs.get(room) ?? 0) + 1;
    seqs.set(room, seq);
    io.to(room).emit("message", { room, seq, at: Date.now(), sender: socket.data.user, text });
    ack({ seq });
  });
});

http.listen(Number(port), host, () => {
  console.log(`listening on http://${host}:${http.address().port}`);
});
for (const signal of ["SIGTERM", "SIGINT"]) process.on(signal, () => process.exit(0));
