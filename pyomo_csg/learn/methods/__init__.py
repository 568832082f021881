"""The methods of training: mmd, static, dynamic and direct."""
