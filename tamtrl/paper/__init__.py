"""Tables and figures. Everything here reads CSV files; nothing trains or predicts."""
